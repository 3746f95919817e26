
-- Uses last_container (container).
-- Packing changes what is bound. So in a shell with the module, make-squashfs and its like are functions, which run the command and then
-- load the module again.
local shell = myShellName()
local reload = " && module load " .. myModuleFullName()
-- Such a name of a function ends a script whose bash is in POSIX mode, as all are that /bin/sh runs where it is bash. So the shell
-- itself looks, and set_shell_function is not used: it would also undo the function without a look.
local unless_posix = "case :${SHELLOPTS-}: in *:posix:*) ;; *) "
for _, command in ipairs(v.reloading) do
    local call = "env SIFMOD_RELOADS=1 " .. command
    if shell == "bash" or shell == "zsh" then
        local define = command .. " () { " .. call .. ' "$@"' .. reload .. "; };;"
        execute({ cmd = unless_posix .. define .. " esac", modeA = { "load", "refresh" } })
        local unset = "unset -f " .. command .. " 2>/dev/null || :;; esac"
        if last_container and last_container ~= myModuleFullName() then
            -- they are that one's, unless it is unloaded by the same command
            unset = 'case ":$LOADEDMODULES:" in *:"' .. last_container .. '":*) ;; *) ' .. unset .. ";; esac"
        end
        execute({ cmd = unless_posix .. unset, modeA = { "unload" } })
    elseif shell == "fish" then
        set_shell_function(command, call .. " $argv" .. reload, "")
    elseif shell == "csh" or shell == "tcsh" then
        -- after unload a shell function would leave an empty alias, which silently does nothing (Lmod 8.6)
        set_alias(command, call .. " $*" .. reload)
    end
end
