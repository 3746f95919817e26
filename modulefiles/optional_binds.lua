
-- Optional bind paths, if they exist here.
for _, optional in ipairs(v.optional_binds) do
    if exists(optional[1]) then
        binds[#binds + 1] = optional[2]
    end
end
