
-- The other settings. The container inherits them, so what the user exports later counts.
for _, item in ipairs(v.exported) do
    pushenv(item[1], item[2])
end
