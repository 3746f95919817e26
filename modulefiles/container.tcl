
# Without a family several containers can be loaded, and the values of the last one apply. On unload Lmod's pushenv removes
# the top of its stack, whichever module pushed it. If that was another container, the shell loads that one again.
set has_container [sifmod_has __SIFMOD_CONTAINER]
set last_container [lindex [array get env __SIFMOD_CONTAINER] 1]
set me [module-info name]
if {$sifmod_lmod && $sifmod_unloading && $last_container ni [list $me {}] && [module-info shelltype] eq "sh"} {
    puts stdout "case :\$LOADEDMODULES: in *:\"$me\":*) ;; *:\"$last_container\":*) module load \"$last_container\" ;; esac"
}
sifmod_set __SIFMOD_CONTAINER $me
