
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

# sifmod_env NAME: the value of a variable; empty if it is not set.
proc sifmod_env {name} {
    return [expr {[sifmod_has $name] ? $::env($name) : {}}]
}

# One container at a time. When Lmod replaces a member of a family, it loads the new one before it unloads the old one, which
# leaves the old one's values behind. So the old one is unloaded here first. environment-modules refuses the second one.
set member "LMOD_FAMILY_CONTAINER"
if {$sifmod_lmod && $sifmod_loading && [info exists env($member)]
    && $env($member) ne [file dirname [module-info name]]
    && !([info exists env(LMOD_AUTO_SWAP)] && $env(LMOD_AUTO_SWAP) eq "no")} {
    puts stderr "Replacing the container module $env($member) with [module-info name]."
    module unload $env($member)
}
family "container"

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
set sif "/apps/PyTorch/24.03-ngc/pytorch.sif"
foreach {central size id} [list ] {
    if {![file isfile $sif] && [sifmod_is_copy $central $size $id]} {
        set sif $central
    }
}
if {$sifmod_loading && ![file isfile $sif]} {
    if {$sifmod_lmod} {
        error "the image '/apps/PyTorch/24.03-ngc/pytorch.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    }
    puts stderr "the image '/apps/PyTorch/24.03-ngc/pytorch.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    break
}
sifmod_set SIF $sif
sifmod_set "SIFPYTORCH" $sif
sifmod_set CONTAINERROOT "/apps/PyTorch/24.03-ngc"
sifmod_set RUNSCRIPTS "/apps/PyTorch/24.03-ngc/runscripts"
sifmod_set "RUNSCRIPTSPYTORCH" "/apps/PyTorch/24.03-ngc/runscripts"

# The same image for enroot and pyxis, if it is there. If it is not, a value of the user's stays, and is pushed: unload pops it.
set sqsh "/apps/PyTorch/24.03-ngc/pytorch.sqsh"
foreach name [list SQSH "SQSHPYTORCH"] {
    if {[file isfile $sqsh]} {
        sifmod_set $name $sqsh
    } elseif {[sifmod_has $name]} {
        sifmod_set $name $::env($name)
    }
}

# Bind paths: those that the container needs, the optional ones that exist here, and the user's own.
set binds {}
lappend binds "/apps/PyTorch/24.03-ngc/runscripts:/runscripts:ro"
if {[file exists "/scratch"]} {
    lappend binds "/scratch"
}
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
sifmod_set SINGULARITY_NV 1
sifmod_set APPTAINER_NV 1

# Variables in the container only: the effect of activating its Python, and settings that would hurt programs of the host.
sifmod_set SINGULARITYENV_PIP_CONSTRAINT "/runscripts/pip-constraints.txt"
sifmod_set APPTAINERENV_PIP_CONSTRAINT "/runscripts/pip-constraints.txt"
sifmod_set SINGULARITYENV_PREPEND_PATH "/runscripts"
sifmod_set APPTAINERENV_PREPEND_PATH "/runscripts"
sifmod_set SINGULARITYENV_WITH_CONDA_VENV "source /runscripts/init-conda-venv"
sifmod_set APPTAINERENV_WITH_CONDA_VENV "source /runscripts/init-conda-venv"
sifmod_set SINGULARITYENV_LD_PRELOAD "/opt/lib/x.so"
sifmod_set APPTAINERENV_LD_PRELOAD "/opt/lib/x.so"
sifmod_set SINGULARITYENV_PREPEND_LD_LIBRARY_PATH "/.singularity.d/libs"
sifmod_set APPTAINERENV_PREPEND_LD_LIBRARY_PATH "/.singularity.d/libs"
sifmod_set SINGULARITYENV_PYTHONHOME ""
sifmod_set APPTAINERENV_PYTHONHOME ""
sifmod_set SINGULARITYENV_PYTHONNOUSERSITE "1"
sifmod_set APPTAINERENV_PYTHONNOUSERSITE "1"

# The other settings. The container inherits them, so what the user exports later counts.
sifmod_set OMP_NUM_THREADS "4"

# Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
# only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
set cache "/scratch/caches"
set cache_is_known 1
foreach name [list ] {
    if {[sifmod_env $name] eq {}} {
        set cache_is_known 0
    }
}
set cache_problem {}
if {![string match /* $cache] || [regexp {//|/\.\.?/|[[:cntrl:]]} $cache/]} {
    set cache_problem "its path is not absolute here, or has '//', '.' or '..' in it"
} elseif {![file isdirectory $cache]} {
    append cache_problem "'$cache' " "does not exist (make it with: mkdir -p -m 700)"
} elseif {![file owned $cache] || ![file writable $cache] || ![file executable $cache]} {
    append cache_problem "'$cache' " "can't be made or written to, or is not yours"
}
set cache_is_used [expr {$cache_is_known && $cache_problem eq {}}]
set lacks_cache 0
foreach {name folder} [list HF_HOME "hf"] {
    if {[sifmod_has $name]} {
        sifmod_set $name $env($name)
        continue
    }
    set lacks_cache 1
    if {$sifmod_unloading || $cache_is_used} {
        sifmod_set $name $cache/$folder
    }
}
if {$sifmod_unloading || $cache_is_used} {
    sifmod_set __SIFMOD_CACHE $cache
}
if {$sifmod_loading && $cache_is_known && $cache_problem ne {} && $lacks_cache} {
    puts stderr "Warning: [append cache_problem ", " "so `singularity exec` uses default places for caches. The site has them in /scratch/caches"]"
}

# The `eb` of EasyBuild takes the first python3 in PATH, which is this container's now, unless this variable names another.
# EB_PYTHON is the user's, and comes before it.
set eb_python {}
if {[sifmod_has EB_INSTALLPYTHON]} {
    set eb_python $env(EB_INSTALLPYTHON)
} elseif {[info exists env(PATH)]} {
    foreach folder [split $env(PATH) :] {
        if {$eb_python eq {} && $folder ne "/apps/PyTorch/24.03-ngc/bin" && [file isfile $folder/python3]} {
            set eb_python $folder/python3
        }
    }
}
if {$eb_python ne {}} {
    sifmod_set EB_INSTALLPYTHON $eb_python
}
