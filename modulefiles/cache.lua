
-- Uses expand (expand).
-- Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
-- only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
local cache = expand(v.cache.root, v.cache.expanded)
-- What lets others put their files into a folder, from the top to the folder itself: nil if nothing. A folder that others may write
-- to passes if it has the sticky bit and the next one is root's or the user's; a link in it does not.
local function problem_of_way(path)
    local way = v.cache.way
    local has_stat, stat = pcall(require, "posix.sys.stat")
    local has_unistd, unistd = pcall(require, "posix.unistd")
    if not (has_stat and has_unistd) then
        return "'" .. path .. "' " .. way.unseen
    end
    local has = function(mode, bit)
        return math.floor(mode / bit) % 2 == 1
    end
    local done, rest, links, open = "", path .. "/", 0, {}
    while rest ~= "" do
        local part, after = rest:match("^([^/]*)/(.*)$")
        local name = done .. "/" .. part
        rest = after
        if part == ".." then
            done = (done:gsub("/[^/]*$", ""))
        elseif part ~= "." and (part ~= "" or done == "") then
            local found, _, code = stat.lstat(name)
            if not found then
                return code ~= 2 and "'" .. name .. "' " .. v.cache.unusable or nil
            end
            local is_link = stat.S_ISLNK(found.st_mode) ~= 0
            local is_mine = found.st_uid == unistd.geteuid()
            local others_write = has(found.st_mode, 16) or has(found.st_mode, 2)
            if is_link and (open[done] or links == 40 or rest == "") then
                return "'" .. name .. "' " .. way.link
            elseif not is_mine and (found.st_uid ~= 0 or rest == "") then
                return "'" .. name .. "' " .. way.foreign
            elseif is_link then
                local target = unistd.readlink(name) or ""
                links = links + 1
                done = target:sub(1, 1) == "/" and "" or done
                rest = target .. "/" .. rest
            elseif others_write and (rest == "" or not has(found.st_mode, 512)) then
                return "'" .. name .. "' " .. way.shared
            else
                done = part == "" and "" or name
                open[done] = others_write
            end
        end
    end
end
local function problem_of_folder(path)
    local why, modes = problem_of_way(path), lfs.attributes(path, "permissions")
    if not why and modes and not (isDir(path) and modes:sub(1, 3) == "rwx") then
        why = "'" .. path .. "' " .. v.cache.unusable
    end
    return why, modes
end
local cache_is_known = true
for _, name in ipairs(v.cache.expanded) do
    cache_is_known = cache_is_known and (os.getenv(name) or "") ~= ""
end
local cache_problem
if cache:sub(1, 1) ~= "/" or (cache .. "/"):find("//", 1, true) or (cache .. "/"):find("/%.%.?/") or cache:find("%c") then
    cache_problem = v.cache.unclean
else
    local exists
    cache_problem, exists = problem_of_folder(cache)
    if not (cache_problem or exists) then
        cache_problem = "'" .. cache .. "' " .. v.cache.missing
    end
    for _, item in ipairs(v.cache.folders) do
        local folder = cache
        for part in (os.getenv(item[1]) and "" or item[2]):gmatch("[^/]+") do
            folder = folder .. "/" .. part
            cache_problem = cache_problem or problem_of_folder(folder)
        end
    end
end
local cache_is_used = cache_is_known and not cache_problem
local lacks_cache = false
for _, item in ipairs(v.cache.folders) do
    local users = os.getenv(item[1])
    if mode() == "unload" or users or cache_is_used then
        pushenv(item[1], users or cache .. "/" .. item[2])
    end
    lacks_cache = lacks_cache or not users
end
if mode() == "unload" or cache_is_used then
    pushenv("__SIFMOD_CACHE", cache)
end
if mode() == "load" and cache_is_known and cache_problem and lacks_cache then
    LmodMessage("Warning: " .. cache_problem .. ", " .. v.cache.advice)
end
