
-- Patterns with `*`, `?` and `[a-z0-9]`. as_lua(PATTERN): the same for string.match.
local function as_lua(pattern)
    local text = pattern:gsub("%W", "%%%0"):gsub("%%%*", ".*"):gsub("%%%?", ".")
    return "^" .. text:gsub("%%%[(.-)%%%]", function(class)
        return "[" .. class:gsub("%%", "") .. "]"
    end) .. "$"
end

-- matches(PATTERN): the paths that a pattern of paths matches, sorted. The name of a hidden file matches none.
local function matches(pattern)
    local found = { "" }
    for name, slashes in pattern:gmatch("([^/]*)(/*)") do
        local longer = {}
        for _, start in ipairs(found) do
            local is_open, entries, folder = false, nil, nil
            if not name:find("[*?%[]") then
                longer[#longer + 1] = start .. name .. slashes
            elseif lfs and lfs.dir then
                is_open, entries, folder = pcall(lfs.dir, start)
            end
            if is_open then
                for entry in entries, folder do
                    if entry:sub(1, 1) ~= "." and entry:match(as_lua(name)) then
                        longer[#longer + 1] = start .. entry .. slashes
                    end
                end
            end
        end
        found = longer
    end
    table.sort(found)
    return found
end
