
-- The container, written by sifmod VERSION. pushenv restores the user's own values on unload.

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

local installdir = "/apps/GROMACS/2024.1"

-- The image: the installation's own copy, or one of the site's of the same size and with the same identifier in its header.
local sif = pathJoin(installdir, "gromacs.sif")
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
    LmodError("the image '/apps/GROMACS/2024.1/gromacs.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild")
end
pushenv("SIF", sif)
pushenv("SIFGROMACS", sif)
pushenv("CONTAINERROOT", installdir)
pushenv("RUNSCRIPTS", pathJoin(installdir, "runscripts"))
pushenv("RUNSCRIPTSGROMACS", pathJoin(installdir, "runscripts"))

-- Bind paths: those that the container needs, the optional ones that exist here, and the user's own.
local binds = {
    "/apps/GROMACS/2024.1/runscripts:/runscripts:ro",
}
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
pushenv("SINGULARITYENV_PREPEND_PATH", "/runscripts")
pushenv("APPTAINERENV_PREPEND_PATH", "/runscripts")
