
# Uses last_container, me (container).
# Packing changes what is bound. So in a shell with the module, make-squashfs and its like are functions, which run the command and then
# load the module again.
# Such a name of a function ends a script whose bash is in POSIX mode, as all are that /bin/sh runs where it is bash. So the shell
# itself looks, and set-function is not used: it would also undo the function without a look.
if {[module-info shell] in {bash zsh}} {
    set unless_posix "case :\${SHELLOPTS-}: in *:posix:*) ;; *) "
    set reload [expr {$sifmod_lmod ? "module load $me" : "module switch $me $me"}]
    foreach command $v(reloading) {
        if {$sifmod_loading} {
            set define "$command () { env SIFMOD_RELOADS=1 $command \"\$@\" && $reload; };;"
            puts stdout "$unless_posix$define esac"
        } elseif {$sifmod_unloading} {
            set unset "unset -f $command 2>/dev/null || :;; esac"
            if {$last_container ni [list $me {}]} {
                # they are that one's, unless it is unloaded by the same command
                set unset "case \":\$LOADEDMODULES:\" in *:\"$last_container\":*) ;; *) $unset;; esac"
            }
            puts stdout "$unless_posix$unset"
        }
    }
}
