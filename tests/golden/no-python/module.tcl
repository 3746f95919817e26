
# The container, written by sifmod VERSION. The user's own values are restored on unload.
if {[info exists ::ModuleTool]} {
    set sifmod_lmod [expr {$::ModuleTool eq "Lmod"}]
} else {
    set sifmod_lmod [info exists env(LMOD_VERSION)]
}

set sifmod_loading [module-info mode load]
set sifmod_unloading [module-info mode remove]

# sifmod_has NAME: whether the variable is set. One that environment-modules has just unset is still in env, and empty; its
# getenv says more. That of Lmod 8.7 takes no value for a variable that is not set.
proc sifmod_has {name} {
    if {!$::sifmod_lmod && ($::sifmod_loading || $::sifmod_unloading)} {
        return [expr {[getenv $name "\u0001"] ne "\u0001"}]
    }
    return [info exists ::env($name)]
}

# sifmod_set NAME VALUE: set a variable until unload, as pushenv should. The pushenv of environment-modules splits values at
# colons and finds only the value that it would set today. So there a list of our own keeps the earlier values, as owner,
# value, owner, value ...
proc sifmod_set {name value} {
    if {$::sifmod_lmod} {
        # its Tcl half sets the variable at once, and its Lua half would take that for the value to restore
        set was [array get ::env $name]
        pushenv $name $value
        array unset ::env $name
        array set ::env $was
        return
    }
    if {!$::sifmod_loading && !$::sifmod_unloading} {
        setenv $name $value
        return
    }
    set list __SIFMOD_STACK_$name
    set me [module-info name]
    set owners {}
    set others {}
    if {[sifmod_has $list] && ![catch {llength $::env($list)}]} {
        foreach {owner old} $::env($list) {
            lappend owners $owner
            if {$owner ne $me} {
                lappend others $owner $old
            }
        }
    }
    if {$::sifmod_loading} {
        if {![llength $owners] && [sifmod_has $name]} {
            set others [list {} $::env($name)]
        }
        setenv $list [linsert $others 0 $me $value]
        setenv $name $value
    } elseif {$me in $owners} {
        # in this mode setenv unsets and unsetenv sets; the rest of this process sees the value passed to setenv
        if {[llength $others]} {
            unsetenv $name [lindex $others 1]
        } else {
            setenv $name {}
        }
        if {[lindex $others 0] eq {}} {
            setenv $list {}
        } else {
            unsetenv $list $others
        }
    }
}

# Without a family several containers can be loaded, and the values of the last one apply. On unload Lmod's pushenv removes
# the top of its stack, whichever module pushed it. If that was another container, the shell loads that one again.
set loaded __SIFMOD_CONTAINER
if {$sifmod_lmod && $sifmod_unloading && [info exists env($loaded)] && $env($loaded) ne [module-info name]
    && [module-info shelltype] eq "sh"} {
    set me [module-info name]
    set last $env($loaded)
    puts stdout "case :\$LOADEDMODULES: in *:\"$me\":*) ;; *:\"$last\":*) module load \"$last\" ;; esac"
}
set is_loaded [sifmod_has $loaded]
sifmod_set $loaded [module-info name]

# The image: the installation's own copy, or one of the site's of the same size and with the same identifier in its header.
proc sifmod_is_copy {path size id} {
    if {![file isfile $path] || !$size} {
        return [file isfile $path]
    }
    if {[file size $path] != $size || [catch {open $path rb} file]} {
        return 0
    }
    seek $file 48
    binary scan [read $file 16] H* found
    close $file
    return [expr {$id eq "" || $found eq $id}]
}
set sif "/apps/GROMACS/2024.1/gromacs.sif"
foreach {central size id} [list ] {
    if {![file isfile $sif] && [sifmod_is_copy $central $size $id]} {
        set sif $central
    }
}
if {$sifmod_loading && ![file isfile $sif]} {
    if {$sifmod_lmod} {
        error "the image '/apps/GROMACS/2024.1/gromacs.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    }
    puts stderr "the image '/apps/GROMACS/2024.1/gromacs.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    break
}
sifmod_set SIF $sif
sifmod_set "SIFGROMACS" $sif
sifmod_set CONTAINERROOT "/apps/GROMACS/2024.1"
sifmod_set RUNSCRIPTS "/apps/GROMACS/2024.1/runscripts"
sifmod_set "RUNSCRIPTSGROMACS" "/apps/GROMACS/2024.1/runscripts"

# Bind paths: those that the container needs, the optional ones that exist here, and the user's own.
set binds {}
lappend binds "/apps/GROMACS/2024.1/runscripts:/runscripts:ro"
set users_binds {}
foreach name [expr {$is_loaded ? {SIFMOD_USER_BINDPATH} : {APPTAINER_BINDPATH SINGULARITY_BINDPATH}}] {
    if {[sifmod_has $name]} {
        set users_binds $env($name)
        break
    }
}
if {$users_binds ne {}} {
    sifmod_set SIFMOD_USER_BINDPATH $users_binds
    lappend binds $users_binds
}
sifmod_set SINGULARITY_BINDPATH [join $binds ,]
sifmod_set APPTAINER_BINDPATH [join $binds ,]
# what wrappers compare with, to find what the user has added since
sifmod_set __SIFMOD_BINDPATH [join $binds ,]

# Variables in the container only: the effect of activating its Python, and settings that would hurt programs of the host.
sifmod_set SINGULARITYENV_PREPEND_PATH "/runscripts"
sifmod_set APPTAINERENV_PREPEND_PATH "/runscripts"
