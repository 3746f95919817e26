
-- The container, written by sifmod VERSION. pushenv restores the user's own values on unload.

-- One container at a time. When Lmod replaces a member of a family, it loads the new one before it unloads the old one, which
-- leaves the old one's values behind. So the old one is unloaded here first.
local member = os.getenv("LMOD_FAMILY_CONTAINER")
if mode() == "load" and member and member ~= myModuleName() and os.getenv("LMOD_AUTO_SWAP") ~= "no" then
    LmodMessage("Replacing the container module " .. member .. " with " .. myModuleFullName() .. ".")
    unload(member)
end
family("container")

-- Without a family several containers can be loaded, and the values of the last one apply. On unload pushenv removes the top
-- of its stack, whichever module pushed it. If that was another container, the shell loads that one again.
local last = os.getenv("__SIFMOD_CONTAINER")
if mode() == "unload" and last and last ~= myModuleFullName() and myShellType() == "sh" then
    execute{
        cmd = 'case ":$LOADEDMODULES:" in *:"' .. myModuleFullName() .. '":*) ;; *:"' .. last .. '":*) module load "'
            .. last .. '" ;; esac',
        modeA = { "unload" },
    }
end
pushenv("__SIFMOD_CONTAINER", myModuleFullName())

local installdir = "/apps/PyTorch/24.03-ngc"

-- The image: the installation's own copy, or one of the site's of the same size and with the same identifier in its header.
local sif = pathJoin(installdir, "pytorch.sif")
local function is_copy(path, size, id)
    if not isFile(path) or size == 0 or not (io and io.open) then
        return isFile(path)
    end
    local file = io.open(path, "rb")
    if not file then
        return false
    end
    local is_same = file:seek("end") == size
    file:seek("set", 48)
    local found = (file:read(16) or ""):gsub(".", function(char)
        return ("%02x"):format(char:byte())
    end)
    file:close()
    return is_same and (id == "" or found == id)
end
if not isFile(sif) then
    for _, central in ipairs({
    }) do
        if is_copy(central[1], central[2], central[3]) then
            sif = central[1]
            break
        end
    end
end
if mode() == "load" and not isFile(sif) then
    LmodError("the image '/apps/PyTorch/24.03-ngc/pytorch.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild")
end
pushenv("SIF", sif)
pushenv("SIFPYTORCH", sif)
pushenv("CONTAINERROOT", installdir)
pushenv("RUNSCRIPTS", pathJoin(installdir, "runscripts"))
pushenv("RUNSCRIPTSPYTORCH", pathJoin(installdir, "runscripts"))

-- The same image for enroot and pyxis, if it is there. If it is not, a value of the user's stays, and is pushed: unload pops it.
local sqsh = pathJoin(installdir, "pytorch.sqsh")
for _, name in ipairs({ "SQSH", "SQSHPYTORCH" }) do
    local value = isFile(sqsh) and sqsh or os.getenv(name)
    if value then
        pushenv(name, value)
    end
end

-- What the cluster offers to containers: each feature in use that applies on this node adds bind paths and variables. The record
-- says which these were, for the unload, and for commands on other nodes.
local record = { own = "__SIFMOD_FEATURES_PYTORCH", last = "__SIFMOD_FEATURES" }
local features = {
    {
        name = "ib",
        device = nil,
        exists = nil,
        hosts = { },
        binds = {
        },
        plain = { { "NCCL_SOCKET_IFNAME", "ib0" }, },
        twins = { { "ENV_PYTHONPATH", "/x" }, },
        library_path = "",
    },
}

local function exists(path)
    if lfs and lfs.attributes then
        return lfs.attributes(path) ~= nil
    end
    return isDir(path) or isFile(path)
end

-- The name of this node, in full and short, and Slurm's for it. The variable HOSTNAME of a job is that of the login node.
local hosts = { os.getenv("SLURMD_NODENAME") }
local hostname = io and io.open and io.open("/proc/sys/kernel/hostname")
if hostname then
    local name = hostname:read() or ""
    hostname:close()
    hosts[#hosts + 1] = name
    hosts[#hosts + 1] = name:match("^[^.]*")
end
local function is_host(patterns)
    for _, pattern in ipairs(patterns) do
        for _, name in ipairs(hosts) do
            if name:match(pattern) then
                return true
            end
        end
    end
    return #patterns == 0
end

-- matches(PARTS): the paths that a pattern matches. Its parts are texts, and for the entries of a folder a pattern in braces.
local function matches(parts)
    local found = { "" }
    for _, part in ipairs(parts) do
        local longer = {}
        for _, start in ipairs(found) do
            local is_open, entries, folder = false, nil, nil
            if type(part) == "string" then
                longer[#longer + 1] = start .. part
            elseif lfs and lfs.dir then
                is_open, entries, folder = pcall(lfs.dir, start)
            end
            if is_open then
                for name in entries, folder do
                    if name:sub(1, 1) ~= "." and name:match(part[1]) then
                        longer[#longer + 1] = start .. name
                    end
                end
            end
        end
        found = longer
    end
    table.sort(found)
    return found
end

-- nearest(WORD): the known name with the fewest differences, if these are at most half of its letters, rounded up.
local function nearest(word)
    local near, best = nil, 99
    for _, feature in ipairs(features) do
        local known, row = feature.name, {}
        for j = 0, #known do
            row[j] = j
        end
        for i = 1, #word do
            local diagonal = row[0]
            row[0] = i
            for j = 1, #known do
                local above, changed = row[j], word:sub(i, i) ~= known:sub(j, j) and 1 or 0
                row[j] = math.min(above + 1, row[j - 1] + 1, diagonal + changed)
                diagonal = above
            end
        end
        if row[#known] < best and 2 * row[#known] <= #known + 1 then
            near, best = known, row[#known]
        end
    end
    return near
end

local known, chosen = {}, { ["ib"] = true, }
for _, feature in ipairs(features) do
    known[feature.name] = true
end
for change in (os.getenv("SIFMOD_FEATURES") or ""):gmatch("[^,%s]+") do
    local name = change:gsub("^%-", "")
    if known[name] then
        chosen[name] = change == name or nil
    elseif mode() == "load" then
        name = name:gsub("[^%w_-]", "?"):sub(1, 40)
        local near = nearest(name)
        LmodMessage("SIFMOD_FEATURES: there is no feature '" .. name .. "'"
            .. (near and " (perhaps you meant '" .. near .. "')" or "") .. ": use " .. "ib")
    end
end
-- Those in use whose conditions this node meets: the others conflict with nothing here.
local usable = {}
for _, feature in ipairs(features) do
    usable[feature.name] = chosen[feature.name] and is_host(feature.hosts) and not (feature.device and not exists(feature.device))
        and not (feature.exists and not exists(feature.exists))
end

-- binds_of(FEATURE): its bind paths on this node, or nil and the message if one is missing that it needs.
local function binds_of(feature)
    local found = {}
    for _, bind in ipairs(feature.binds) do
        local pattern, source, folder, options, missing = bind[1], bind[2], bind[3], bind[4], bind[5]
        local count = #found
        if type(pattern) == "string" and exists(source) then
            found[#found + 1] = pattern
        end
        for _, path in ipairs(type(pattern) == "table" and matches(pattern) or {}) do
            if exists(path) and not path:find("[,:\\^%c]") and not path:find("%s$") then
                local destination = folder ~= "" and folder .. path:match("[^/]*$") or options ~= "" and path
                found[#found + 1] = path .. (destination and ":" .. destination or "") .. (options ~= "" and ":" .. options or "")
            end
        end
        if missing and #found == count then
            return nil, missing
        end
    end
    return found
end

local before = mode() == "unload" and (os.getenv(record.own) or ":"):match(":(.*)")
local features_binds, applied, in_use, library_path = {}, {}, {}, {}
local plain = {
}
local twins = {
}
for _, feature in ipairs(features) do
    local applies = usable[feature.name]
    if chosen[feature.name] then
        in_use[#in_use + 1] = feature.name
    end
    if before then
        applies = ("," .. before .. ","):find("," .. feature.name .. ",", 1, true)
    elseif applies then
        local found, missing = binds_of(feature)
        if not found and mode() == "load" then
            LmodMessage("Warning: " .. missing)
        end
        applies = found
        for _, bind in ipairs(found or {}) do
            if not features_binds[bind] then
                features_binds[#features_binds + 1] = bind
                features_binds[bind] = true
            end
        end
    end
    if applies then
        applied[#applied + 1] = feature.name
        for _, item in ipairs(feature.plain) do
            plain[item[1]] = item[2]
        end
        for _, item in ipairs(feature.twins) do
            twins[item[1]] = item[2]
        end
        if feature.library_path ~= "" then
            library_path[#library_path + 1] = feature.library_path
        end
    end
end
if #library_path > 0 then
    twins["ENV_LD_LIBRARY_PATH"] = table.concat(library_path, ":") .. "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
end
for _, name in ipairs({ "NCCL_SOCKET_IFNAME", }) do
    if plain[name] then
        pushenv(name, plain[name])
    end
end
for _, name in ipairs({ "ENV_PYTHONPATH", }) do
    if twins[name] then
        pushenv("SINGULARITY" .. name, twins[name])
        pushenv("APPTAINER" .. name, twins[name])
    end
end
for _, name in pairs(record) do
    pushenv(name, table.concat(in_use, ",") .. ":" .. table.concat(applied, ","))
end

-- Bind paths: those that the container needs, the optional ones that exist here, and the user's own.
local binds = {
    "/apps/PyTorch/24.03-ngc/runscripts:/runscripts:ro",
}
for _, optional in ipairs({
    { "/scratch", "/scratch" },
}) do
    if isDir(optional[1]) or isFile(optional[1]) then
        binds[#binds + 1] = optional[2]
    end
end
for _, bind in ipairs(features_binds) do
    binds[#binds + 1] = bind
end
local users_binds = last and os.getenv("SIFMOD_USER_BINDPATH")
    or not last and (os.getenv("APPTAINER_BINDPATH") or os.getenv("SINGULARITY_BINDPATH")) or ""
if users_binds ~= "" then
    pushenv("SIFMOD_USER_BINDPATH", users_binds)
    binds[#binds + 1] = users_binds
end
pushenv("SINGULARITY_BINDPATH", table.concat(binds, ","))
pushenv("APPTAINER_BINDPATH", table.concat(binds, ","))
-- what wrappers compare with, to find what the user has added since
pushenv("__SIFMOD_BINDPATH", table.concat(binds, ","))
pushenv("SINGULARITY_NV", "1")
pushenv("APPTAINER_NV", "1")

-- Variables in the container only: the effect of activating its Python, and settings that would hurt programs of the host.
pushenv("SINGULARITYENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt")
pushenv("APPTAINERENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt")
pushenv("SINGULARITYENV_PREPEND_PATH", "/runscripts")
pushenv("APPTAINERENV_PREPEND_PATH", "/runscripts")
pushenv("SINGULARITYENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv")
pushenv("APPTAINERENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv")
pushenv("SINGULARITYENV_LD_PRELOAD", "/opt/lib/x.so")
pushenv("APPTAINERENV_LD_PRELOAD", "/opt/lib/x.so")
pushenv("SINGULARITYENV_PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs")
pushenv("APPTAINERENV_PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs")
pushenv("SINGULARITYENV_PYTHONHOME", "")
pushenv("APPTAINERENV_PYTHONHOME", "")
pushenv("SINGULARITYENV_PYTHONNOUSERSITE", "1")
pushenv("APPTAINERENV_PYTHONNOUSERSITE", "1")

-- The other settings. The container inherits them, so what the user exports later counts.
pushenv("OMP_NUM_THREADS", "4")

-- Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
-- only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
local cache = "/scratch/" .. (os.getenv("USER") or "")
local cache_is_known = true
for _, name in ipairs({ "USER" }) do
    cache_is_known = cache_is_known and (os.getenv(name) or "") ~= ""
end
local cache_problem
if cache:sub(1, 1) ~= "/" or (cache .. "/"):find("//", 1, true) or (cache .. "/"):find("/%.%.?/") or cache:find("%c") then
    cache_problem = "its path is not absolute here, or has '//', '.' or '..' in it"
elseif not isDir(cache) then
    cache_problem = "'" .. cache .. "' does not exist (make it with: mkdir -p -m 700)"
elseif lfs and lfs.attributes then
    local is_mine = lfs.attributes(cache, "uid") == lfs.attributes("/proc/self", "uid")
    if not is_mine or lfs.attributes(cache, "permissions"):sub(1, 3) ~= "rwx" then
        cache_problem = "'" .. cache .. "' can't be made or written to, or is not yours"
    end
end
local cache_is_used = cache_is_known and not cache_problem
local lacks_cache = false
for _, item in ipairs({
    { "HF_HOME", "hf" },
}) do
    local own = os.getenv(item[1])
    if mode() == "unload" or own or cache_is_used then
        pushenv(item[1], own or cache .. "/" .. item[2])
    end
    lacks_cache = lacks_cache or not own
end
if mode() == "unload" or cache_is_used then
    pushenv("__SIFMOD_CACHE", cache)
end
if mode() == "load" and cache_is_known and cache_problem and lacks_cache then
    LmodMessage("Warning: " .. cache_problem .. ", so `singularity exec` uses default places for caches. The site has them in /scratch/${USER}")
end

-- The `eb` of EasyBuild takes the first python3 in PATH, which is this container's now, unless this variable names another.
-- EB_PYTHON is the user's, and comes before it.
local eb_python = os.getenv("EB_INSTALLPYTHON")
for folder in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    local python = pathJoin(folder, "python3")
    if not eb_python and folder ~= pathJoin(installdir, "bin") and isFile(python) then
        eb_python = python
    end
end
if eb_python then
    pushenv("EB_INSTALLPYTHON", eb_python)
end
