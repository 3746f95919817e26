
-- The settings of the site, for any image.
help(table.concat(v.help, "\n"))
for _, line in ipairs(v.whatis) do
    whatis(line)
end
