
-- Uses names, own, layers, find_layers, open_file, problem_of (user_software).
-- The user software of what this module builds on comes after it, and then the layers of that, as long as its manifest says what it
-- did when this module was installed.
local function find_base(base)
    local file = not (io and io.open) and "" or is_file(base.manifest) and open_file(base.manifest)
    if not file then
        if mode() == "load" then
            LmodMessage("Warning: " .. base.is_gone)
        end
        return
    end
    if file ~= "" then
        local text = file:read(own.most_manifest) or ""
        file:close()
        if not text:find(base.python_line, 1, true) then
            if mode() == "load" then
                LmodError(base.other_python)
            end
            return
        end
        if mode() == "load" and not text:find(base.venv_line, 1, true) then
            LmodMessage("Warning: " .. base.other_venv)
        elseif mode() == "load" and not text:find(base.image_line, 1, true) then
            LmodMessage("Note: " .. base.other_image)
        end
    end
    local directory, file_name = base.root .. names.directory, base.root .. names.packed
    local is_there = isDir(directory)
    if is_file(file_name) and not (is_there and (is_file(base.root .. names.unpacked_mark) or problem_of(file_name))) then
        layers[#layers + 1] = { file_name, base.source .. names.packed, true }
    elseif is_there then
        layers[#layers + 1] = { directory, base.source .. names.directory, false }
    elseif mode() == "load" then
        LmodMessage("Warning: " .. base.is_missing)
    end
    find_layers(base.root, base.source)
end
for _, base in ipairs(v.bases) do
    find_base(base)
end
