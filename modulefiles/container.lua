
-- Without a family several containers can be loaded, and the values of the last one apply. On unload pushenv removes the top
-- of its stack, whichever module pushed it. If that was another container, the shell loads that one again.
local last_container = os.getenv("__SIFMOD_CONTAINER")
if mode() == "unload" and last_container and last_container ~= myModuleFullName() and myShellType() == "sh" then
    execute{
        cmd = 'case ":$LOADEDMODULES:" in *:"' .. myModuleFullName() .. '":*) ;; *:"' .. last_container .. '":*) module load "'
            .. last_container .. '" ;; esac',
        modeA = { "unload" },
    }
end
pushenv("__SIFMOD_CONTAINER", myModuleFullName())
