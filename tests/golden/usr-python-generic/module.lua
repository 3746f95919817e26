
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

local installdir = "/apps/Python/3.11-demo-singularity"

-- The image: the installation's own copy, or one of the site's of the same size and with the same identifier in its header.
local sif = pathJoin(installdir, "demo.sif")
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
    LmodError("the image '/apps/Python/3.11-demo-singularity/demo.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild")
end
pushenv("SIF", sif)
pushenv("SIFPYTHON", sif)
pushenv("CONTAINERROOT", installdir)
pushenv("RUNSCRIPTS", pathJoin(installdir, "runscripts"))
pushenv("RUNSCRIPTSPYTHON", pathJoin(installdir, "runscripts"))

-- Bind paths: those that the container needs, the optional ones that exist here, the user software, and the user's own.
local binds = {
    "/apps/Python/3.11-demo-singularity/runscripts:/runscripts:ro",
}
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
        unreadable = { "/apps/Python/3.11-demo-singularity/user-software.squashfs can't be read, so /apps/Python/3.11-demo-singularity/user-software is used. Its owner can allow it with: chmod ug+r /apps/Python/3.11-demo-singularity/user-software.squashfs", "/apps/Python/3.11-demo-singularity/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r /apps/Python/3.11-demo-singularity/user-software.squashfs" },
        damaged = { "/apps/Python/3.11-demo-singularity/user-software.squashfs is damaged, so /apps/Python/3.11-demo-singularity/user-software is used. Pack it again with: rm /apps/Python/3.11-demo-singularity/user-software.squashfs; make-squashfs", "/apps/Python/3.11-demo-singularity/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or begin anew with: rm /apps/Python/3.11-demo-singularity/user-software.squashfs; eb --rebuild" },
    }
    if mode() == "load" then
        LmodMessage("Warning: " .. said[problem][has_directory and 1 or 2])
    end
end
if is_packed then
    binds[#binds + 1] = "/apps/Python/3.11-demo-singularity/user-software.squashfs:/user-software:ro,image-src=/"
elseif has_directory then
    binds[#binds + 1] = "/apps/Python/3.11-demo-singularity/user-software:/user-software"
elseif mode() == "load" and not problem then
    LmodMessage("Warning: the user software is missing: neither /apps/Python/3.11-demo-singularity/user-software nor /apps/Python/3.11-demo-singularity/user-software.squashfs exists. Make it again, without your packages, with: eb --rebuild")
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
find_layers(installdir, "/apps/Python/3.11-demo-singularity")
for number, layer in ipairs(layers) do
    local below = "/user-layers/" .. number
    local is_one_too_many = number > 8
    -- for a directory it says "damaged"
    local problem = problem_of(layer[1])
    if not is_one_too_many and (not problem or not layer[3] and problem ~= "unreadable") then
        binds[#binds + 1] = layer[2] .. ":" .. below .. (layer[3] and ":ro,image-src=/" or ":ro")
        layer_folders[#layer_folders + 1] = below .. "/venv/demo"
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

-- Variables in the container only: the effect of activating its Python, and settings that would hurt programs of the host.
pushenv("SINGULARITYENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt")
pushenv("APPTAINERENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt")
pushenv("SINGULARITYENV_UV_EXCLUDE", "/runscripts/pip-constraints.txt")
pushenv("APPTAINERENV_UV_EXCLUDE", "/runscripts/pip-constraints.txt")
pushenv("SINGULARITYENV_VIRTUAL_ENV", "/user-software/venv/demo")
pushenv("APPTAINERENV_VIRTUAL_ENV", "/user-software/venv/demo")
pushenv("SINGULARITYENV_VIRTUAL_ENV_PROMPT", "(demo) ")
pushenv("APPTAINERENV_VIRTUAL_ENV_PROMPT", "(demo) ")
pushenv("SINGULARITYENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv")
pushenv("APPTAINERENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv")
pushenv("SINGULARITYENV_WITH_VENV", "source /user-software/venv/demo/bin/activate")
pushenv("APPTAINERENV_WITH_VENV", "source /user-software/venv/demo/bin/activate")
local search_path = "/runscripts:/user-software/venv/demo/bin"
for _, folder in ipairs(layer_folders) do
    search_path = search_path .. ":" .. folder .. "/bin"
end
search_path = search_path .. ""
pushenv("SINGULARITYENV_PREPEND_PATH", search_path)
pushenv("APPTAINERENV_PREPEND_PATH", search_path)
-- what was set when the module was loaded is unset, however many layers there are by then
local layered = "__SIFMOD_LAYERS_PYTHON"
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
pushenv("SINGULARITYENV_PYTHONHOME", "")
pushenv("APPTAINERENV_PYTHONHOME", "")
pushenv("SINGULARITYENV_PYTHONNOUSERSITE", "1")
pushenv("APPTAINERENV_PYTHONNOUSERSITE", "1")
pushenv("SINGULARITYENV_UV_LINK_MODE", "copy")
pushenv("APPTAINERENV_UV_LINK_MODE", "copy")

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
