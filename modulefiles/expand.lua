
-- expand(TEXT, NAMES): the text with the values of these variables for $NAME and ${NAME}. Any other dollar sign stays.
local function expand(text, names)
    return (text:gsub("%$({?)([%w_]+)(}?)", function(open, name, close)
        for _, known in ipairs(names) do
            if name == known and (open == "" or close ~= "") then
                return (os.getenv(name) or "") .. (open == "" and close or "")
            end
        end
    end))
end
