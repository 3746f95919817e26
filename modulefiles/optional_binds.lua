
-- Optional bind paths, if they exist here.
for _, optional in ipairs(v.optional_binds) do
    if isDir(optional[1]) or isFile(optional[1]) then
        binds[#binds + 1] = optional[2]
    end
end
