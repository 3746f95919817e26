-- Written by `sifmod site module`. It has the settings of the site generic: to change them, change the site file and run it again.
help(table.concat({
    "This module sets what containers of any image need at the site generic:",
    "",
    "  module load any-image",
    "  singularity run IMAGE.sif",
    "",
    "Load it in the job, because it looks at the node where it is loaded. Paths in $SINGULARITY_BIND and",
    "variables that you export are used too. The module of a container has all of this and replaces it.",
}, "\n"))
whatis("Description: Bind paths, variables and GPU support of generic for containers of any image")
whatis("Keywords: container, singularity, apptainer, generic")

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

-- Bind paths: those that the container needs, the optional ones that exist here, and the user's own.
local binds = {
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
