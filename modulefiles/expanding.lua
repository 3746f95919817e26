
-- Uses expand (expand).
for _, item in ipairs(v.expanding) do
    pushenv(item[1], expand(item[2], v.expanded))
end
