
-- Uses own, said, layers, problem_of (user_software).
-- Each layer that can be read is bound, the newest first, and what lets programs search them.
local without_layers = #binds
for number, layer in ipairs(layers) do
    local path, source, is_file = layer[1], layer[2], layer[3]
    local is_one_too_many = number > own.most_layers
    -- for a directory it says "damaged"
    local why = problem_of(path)
    if not is_one_too_many and (not why or not is_file and why ~= "unreadable") then
        binds[#binds + 1] = source .. ":" .. own.layers_at .. number .. (is_file and ":ro,image-src=/" or ":ro")
    elseif mode() == "load" then
        LmodMessage("Warning: " .. path .. " " .. (is_one_too_many and said.too_many_layers or said.layer_is_left_out))
    end
end
if #binds > without_layers and own.at_start ~= "" then
    binds[#binds + 1] = own.at_start
end
