
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

local installdir = "/tmp/a b,c'd$e"

-- The image: the installation's own copy, or one of the site's of the same size and with the same identifier in its header.
local sif = pathJoin(installdir, "nasty $image \"1\".sif")
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
        { "/central \"images\"/nasty $image \"1\".sif", 12345678901, "0123456789abcdef0123456789abcdef" },
        { "/cent`ral`/nasty $image \"1\".sif", 12345678901, "0123456789abcdef0123456789abcdef" },
    }) do
        if is_copy(central[1], central[2], central[3]) then
            sif = central[1]
            break
        end
    end
end
if mode() == "load" and not isFile(sif) then
    LmodError("the image '/tmp/a b,c'd$e/nasty $image \"1\".sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild")
end
pushenv("SIF", sif)
pushenv("SIFPYTORCHMINNGC", sif)
pushenv("CONTAINERROOT", installdir)
pushenv("RUNSCRIPTS", pathJoin(installdir, "runscripts"))
pushenv("RUNSCRIPTSPYTORCHMINNGC", pathJoin(installdir, "runscripts"))

-- What the cluster offers to containers: each feature in use that applies on this node adds bind paths and variables. The record
-- says which these were, for the unload, and for commands on other nodes.
local record = { own = "__SIFMOD_FEATURES_PYTORCHMINNGC", last = "__SIFMOD_FEATURES" }
local features = {
    {
        name = "it-s",
        device = nil,
        exists = "/it's/$HOME [x]",
        hosts = { "^nid[0-9].*$", "^a%-b%.c.$", },
        binds = {
            { { "/it's $HOME/", { "^[a-c].*$" }, "/", { "^lib.%.so$" }, "" }, "/it's $HOME/[a-c]*/lib?.so", "/ho st/", "", "the feature 'it-s' needs '/it's $HOME/[a-c]*/lib?.so', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s" },
            { "/a\\,b:/it's:ro", "/a,b", "", "", "the feature 'it-s' needs '/a,b', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s" },
            { { "/dev/", { "^cxi[0-9]$" }, "" }, "/dev/cxi[0-9]", "", "ro", nil },
            { "/x y", "/x y", "", "", nil },
        },
        plain = { { "QUOTES", nil }, { "FEATURE", "it's \"" .. (os.getenv("HOME") or "") .. "\" `id` \\n" }, },
        twins = { { "ENV_INNER", "$(id) it's" }, { "ENV_PYTHONNOUSERSITE", nil }, { "_NO_UMASK", "1" }, { "_NO_MOUNT", "a 'b'" }, },
        library_path = "/ho+st/lib:/it%s",
    },
    {
        name = "gpus",
        device = "/dev/kfd",
        exists = nil,
        hosts = { },
        binds = {
        },
        plain = { },
        twins = { },
        library_path = "/gpus",
    },
    {
        name = "other",
        device = nil,
        exists = nil,
        hosts = { },
        binds = {
        },
        plain = { },
        twins = { },
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

local known, chosen = {}, { ["it-s"] = true, ["gpus"] = true, }
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
            .. (near and " (perhaps you meant '" .. near .. "')" or "") .. ": use " .. "it-s, gpus, other")
    end
end
-- Those in use whose conditions this node meets: the others conflict with nothing here.
local usable = {}
for _, feature in ipairs(features) do
    usable[feature.name] = chosen[feature.name] and is_host(feature.hosts) and not (feature.device and not exists(feature.device))
        and not (feature.exists and not exists(feature.exists))
end
if mode() == "load" and usable["it-s"] and usable["other"] then
    LmodError("the features 'it-s' and 'other' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other")
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
    ["QUOTES"] = "it's \"" .. (os.getenv("HOME") or "") .. "\" `id` \\n",
}
local twins = {
    ["ENV_PYTHONNOUSERSITE"] = "1",
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
for _, name in ipairs({ "FEATURE", "QUOTES", }) do
    if plain[name] then
        pushenv(name, plain[name])
    end
end
for _, name in ipairs({ "ENV_INNER", "ENV_LD_LIBRARY_PATH", "ENV_PYTHONNOUSERSITE", "_NO_MOUNT", "_NO_UMASK", }) do
    if twins[name] then
        pushenv("SINGULARITY" .. name, twins[name])
        pushenv("APPTAINER" .. name, twins[name])
    end
end
for _, name in pairs(record) do
    pushenv(name, table.concat(in_use, ",") .. ":" .. table.concat(applied, ","))
end

-- Bind paths: those that the container needs, the optional ones that exist here, the user software, and the user's own.
local binds = {
    "/tmp/a b\\,c'd$e/runscripts:/runscripts:ro",
    "/site\\,data:/data 1:ro",
    "/own\\,data:/own:rw",
    "/plain",
}
for _, optional in ipairs({
    { "/it's/$HOME", "/it's/$HOME" },
}) do
    if isDir(optional[1]) or isFile(optional[1]) then
        binds[#binds + 1] = optional[2]
    end
end
for _, bind in ipairs(features_binds) do
    binds[#binds + 1] = bind
end
-- What is wrong with a packed file: nil, "unreadable", or "damaged" if it is shorter than its superblock says.
local function problem_of(path)
    if not (io and io.open) then
        return nil
    end
    local file = io.open(path, "rb")
    if not file then
        return "unreadable"
    end
    local head = file:read(48) or ""
    local size = file:seek("end")
    file:close()
    if #head < 48 or head:sub(1, 4) ~= "hsqs" then
        return "damaged"
    end
    local length = 0
    for index = 48, 41, -1 do
        length = length * 256 + head:byte(index)
    end
    return not (96 <= length and length <= size) and "damaged" or nil
end
local directory = pathJoin(installdir, "user-software")
local packed = pathJoin(installdir, "user-software.squashfs")
local has_directory = isDir(directory)
local is_packed = isFile(packed)
    and not (has_directory and isFile(pathJoin(installdir, "user-software.unpacked")))
local problem = is_packed and problem_of(packed)
if problem then
    is_packed = false
    local said = {
        unreadable = { "/tmp/a b,c'd$e/user-software.squashfs can't be read, so /tmp/a b,c'd$e/user-software is used. Its owner can allow it with: chmod ug+r '/tmp/a b,c'\"'\"'d$e/user-software.squashfs'", "/tmp/a b,c'd$e/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r '/tmp/a b,c'\"'\"'d$e/user-software.squashfs'" },
        damaged = { "/tmp/a b,c'd$e/user-software.squashfs is damaged, so /tmp/a b,c'd$e/user-software is used. Pack it again with: rm '/tmp/a b,c'\"'\"'d$e/user-software.squashfs'; make-squashfs", "/tmp/a b,c'd$e/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or begin anew with: rm '/tmp/a b,c'\"'\"'d$e/user-software.squashfs'; eb --rebuild" },
    }
    if mode() == "load" then
        LmodMessage("Warning: " .. said[problem][has_directory and 1 or 2])
    end
end
if is_packed then
    binds[#binds + 1] = "/tmp/a b\\,c'd$e/user-software.squashfs:/user-software:ro,image-src=/"
elseif has_directory then
    binds[#binds + 1] = "/tmp/a b\\,c'd$e/user-software:/user-software"
elseif mode() == "load" and not problem then
    LmodMessage("Warning: the user software is missing: neither /tmp/a b,c'd$e/user-software nor /tmp/a b,c'd$e/user-software.squashfs exists. Make it again, without your packages, with: eb --rebuild")
end

-- Layers: user software below the user's own. Of an installation's, the one with the highest number is the newest, and the first
-- below. `source` is its path in a bind path.
local layers, layer_folders = {}, {}
local function find_layers(root, source)
    local folder, count = "/user-software.layers/", 0
    while count < 8 and isFile(root .. folder .. (count + 1) .. ".squashfs") do
        count = count + 1
    end
    for number = count, 1, -1 do
        local name = folder .. number .. ".squashfs"
        layers[#layers + 1] = { root .. name, source .. name, true }
    end
end
find_layers(installdir, "/tmp/a b\\,c'd$e")
for number, layer in ipairs(layers) do
    local below = "/user-layers/" .. number
    local is_one_too_many = number > 8
    -- for a directory it says "damaged"
    local problem = problem_of(layer[1])
    if not is_one_too_many and (not problem or not layer[3] and problem ~= "unreadable") then
        binds[#binds + 1] = layer[2] .. ":" .. below .. (layer[3] and ":ro,image-src=/" or ":ro")
        layer_folders[#layer_folders + 1] = below .. "/venv/a+b"
    elseif mode() == "load" then
        LmodMessage("Warning: " .. layer[1] .. " " .. (is_one_too_many and "is left out, and its packages are missing: containers have at most 8 layers" or "is left out, and its packages are missing: it can't be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r"))
    end
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
pushenv("SINGULARITYENV_VIRTUAL_ENV", "/user-software/venv/a+b")
pushenv("APPTAINERENV_VIRTUAL_ENV", "/user-software/venv/a+b")
pushenv("SINGULARITYENV_VIRTUAL_ENV_PROMPT", "(a+b) ")
pushenv("APPTAINERENV_VIRTUAL_ENV_PROMPT", "(a+b) ")
pushenv("SINGULARITYENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv")
pushenv("APPTAINERENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv")
pushenv("SINGULARITYENV_WITH_VENV", "source /user-software/venv/a+b/bin/activate")
pushenv("APPTAINERENV_WITH_VENV", "source /user-software/venv/a+b/bin/activate")
local search_path = "/runscripts:/user-software/venv/a+b/bin"
for _, folder in ipairs(layer_folders) do
    search_path = search_path .. ":" .. folder .. "/bin"
end
search_path = search_path .. ":/opt/venv/bin"
pushenv("SINGULARITYENV_PREPEND_PATH", search_path)
pushenv("APPTAINERENV_PREPEND_PATH", search_path)
-- what was set when the module was loaded is unset, however many layers there are by then
local layered = "__SIFMOD_LAYERS_PYTORCHMINNGC"
if #layer_folders > 0 and mode() ~= "unload" or mode() == "unload" and os.getenv(layered) then
    pushenv(layered, tostring(#layer_folders))
    for name, folder in pairs({ CMAKE_PREFIX_PATH = "", JUPYTER_PATH = "/share/jupyter", MANPATH = "/share/man", PKG_CONFIG_PATH = "/lib/pkgconfig", }) do
        local found = {}
        for _, layer in ipairs(layer_folders) do
            found[#found + 1] = layer .. folder
        end
        -- an empty entry stands for the places where man looks by itself
        found[#found + 1] = os.getenv("SINGULARITYENV_" .. name) or name == "MANPATH" and "" or nil
        local value = table.concat(found, ":")
        pushenv("SINGULARITYENV_" .. name, value)
        pushenv("APPTAINERENV_" .. name, value)
    end
end
pushenv("SINGULARITYENV_PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs")
pushenv("APPTAINERENV_PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs")
pushenv("SINGULARITYENV_PYTHONHOME", "")
pushenv("APPTAINERENV_PYTHONHOME", "")
pushenv("SINGULARITYENV_UV_LINK_MODE", "copy")
pushenv("APPTAINERENV_UV_LINK_MODE", "copy")

-- The other settings. The container inherits them, so what the user exports later counts.
pushenv("EMPTY", "")
pushenv("SHARED", "easyconfig's")

-- Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
-- only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
local cache = "/it's " .. (os.getenv("SLURM_JOB_ACCOUNT") or "") .. "/$(id),a:b/" .. (os.getenv("USER") or "")
local cache_is_known = true
for _, name in ipairs({ "SLURM_JOB_ACCOUNT", "USER" }) do
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
    { "HF_HOME", "hugging 'face'" },
    { "TORCH_HOME", "a/b" },
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
    LmodMessage("Warning: " .. cache_problem .. ", so `singularity exec` uses default places for caches. The site has them in /it's ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}")
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

-- Packing changes what is bound, so these commands reload the module in the calling shell.
local shell = myShellName()
local reload = " && module load " .. myModuleFullName()
-- Such a name of a function ends a script whose bash is in POSIX mode, as all are that /bin/sh runs where it is bash. So the shell
-- itself looks, and set_shell_function is not used: it would also undo the function without a look.
local unless_posix = "case :${SHELLOPTS-}: in *:posix:*) ;; *) "
for _, command in ipairs({ "make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers" }) do
    local call = "env SIFMOD_RELOADS=1 " .. command
    if shell == "bash" or shell == "zsh" then
        local define = command .. " () { " .. call .. ' "$@"' .. reload .. "; };;"
        execute({ cmd = unless_posix .. define .. " esac", modeA = { "load", "refresh" } })
        if not last or last == myModuleFullName() then -- otherwise they are another container's
            execute({ cmd = unless_posix .. "unset -f " .. command .. " 2>/dev/null || :;; esac", modeA = { "unload" } })
        end
    elseif shell == "fish" then
        set_shell_function(command, call .. " $argv" .. reload, "")
    elseif shell == "csh" or shell == "tcsh" then
        -- after unload a shell function would leave an empty alias, which silently does nothing (Lmod 8.6)
        set_alias(command, call .. " $*" .. reload)
    end
end
