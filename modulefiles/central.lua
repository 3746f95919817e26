
-- Without the installation's own image, one of the site's of the same size and with the same identifier in its header.
local function is_copy(path, size, id)
    if not is_file(path) or size == 0 or not (io and io.open) then
        return is_file(path)
    end
    local file = io.open(path, "rb")
    if not file then
        return false
    end
    local is_same = file:seek("end") == size
    file:seek("set", v.image_header.id_at)
    local found = (file:read(v.image_header.id_length) or ""):gsub(".", function(char)
        return ("%02x"):format(char:byte())
    end)
    file:close()
    return is_same and (id == "" or found == id)
end
for _, central in ipairs(v.central) do
    if not is_file(v.image) and is_copy(central[1], central[2], central[3]) then
        v.image = central[1]
    end
end
