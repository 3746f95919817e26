
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
local sqsh = "/apps/PyTorch/24.03-ngc/pytorch.sqsh"
for _, name in ipairs({ "SQSH", "SQSHPYTORCH" }) do
    local value = isFile(sqsh) and sqsh or os.getenv(name)
    if value then
        pushenv(name, value)
    end
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
local cache = "/scratch/caches"
local cache_is_known = true
for _, name in ipairs({  }) do
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
    LmodMessage("Warning: " .. cache_problem .. ", so `singularity exec` uses default places for caches. The site has them in /scratch/caches")
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
