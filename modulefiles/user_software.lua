
-- User software: the packed file or the directory, and layers below it.
local own, names, said = v.user_software, v.user_software.names, v.user_software.said

-- Open a file that its owner may have replaced by a FIFO since it was looked at, for which io.open would wait: what is open decides.
-- Lmod's own libraries know how; without them, the file is opened by its name.
local function open_file(path)
    local are_there, posix = pcall(require, "posix")
    local knows, lfs = pcall(require, "lfs")
    if not (are_there and knows and posix.O_NONBLOCK) then
        return io.open(path, "rb")
    end
    local number = posix.open(path, posix.O_RDONLY + posix.O_NONBLOCK)
    if not number then
        return nil
    end
    local opened = "/proc/self/fd/" .. number
    local kind = lfs.attributes(opened, "mode")
    local file = (kind == "file" or kind == "directory") and io.open(opened, "rb")
    posix.close(number)
    return file
end

-- What is wrong with a packed file: nil, "unreadable", or "damaged" if it is shorter than its superblock says.
local function problem_of(path)
    if not (io and io.open) then
        return nil
    end
    local file = open_file(path)
    if not file then
        return "unreadable"
    end
    local format = own.packed_format
    local first, final = format.length_at + 1, format.length_at + 8
    local head = file:read(final) or ""
    local size = file:seek("end")
    file:close()
    if #head < final or head:sub(1, #format.magic) ~= format.magic then
        return "damaged"
    end
    local length = 0
    for index = final, first, -1 do
        length = length * 256 + head:byte(index)
    end
    return not (format.size <= length and length <= size) and "damaged" or nil
end
local packed = v.installdir .. names.packed
local has_directory = isDir(v.installdir .. names.directory)
local is_packed = is_file(packed) and not (has_directory and is_file(v.installdir .. names.unpacked_mark))
local problem = is_packed and problem_of(packed)
if problem and mode() == "load" then
    LmodMessage("Warning: " .. said[problem][has_directory and 1 or 2])
end
if is_packed and not problem then
    binds[#binds + 1] = own.packed_bind
elseif has_directory then
    binds[#binds + 1] = own.directory_bind
elseif mode() == "load" and not problem then
    LmodMessage("Warning: " .. said.missing)
end

-- Of an installation's layers, the one with the highest number is the newest, and the first below. `source` is its path in a bind
-- path.
local layers = {}
local function find_layers(root, source)
    local count = 0
    local function has(ending)
        return count < own.most_layers and is_file(root .. names.layers .. (count + 1) .. ending)
    end
    -- what has a mark is a layer no longer
    while has(".squashfs") and not has(".unused") do
        count = count + 1
    end
    if mode() == "load" and has(".txt") and not has(".squashfs") and not has(".unused") then
        LmodMessage("Warning: " .. root .. names.layers .. (count + 1) .. ".squashfs " .. said.layer_is_gone)
    end
    for number = count, 1, -1 do
        local name = names.layers .. number .. ".squashfs"
        layers[#layers + 1] = { root .. name, source .. name, true }
    end
end
find_layers(v.installdir, own.source)
