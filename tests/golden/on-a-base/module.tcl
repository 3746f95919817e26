
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
set sifmod_is_last [expr {![info exists env($loaded)] || $env($loaded) eq [module-info name]}]
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
set sif "/home/me/Mine/1/demo.sif"
foreach {central size id} [list ] {
    if {![file isfile $sif] && [sifmod_is_copy $central $size $id]} {
        set sif $central
    }
}
if {$sifmod_loading && ![file isfile $sif]} {
    if {$sifmod_lmod} {
        error "the image '' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    }
    puts stderr "the image '' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    break
}
sifmod_set SIF $sif
sifmod_set "SIFMINE" $sif
sifmod_set CONTAINERROOT "/home/me/Mine/1"
sifmod_set RUNSCRIPTS "/home/me/Mine/1/runscripts"
sifmod_set "RUNSCRIPTSMINE" "/home/me/Mine/1/runscripts"

# Bind paths: those that the container needs, the optional ones that exist here, the user software, and the user's own.
set binds {}
lappend binds "/home/me/Mine/1/runscripts:/runscripts:ro"

# What is wrong with a packed file: nothing, "unreadable", or "damaged" if it is shorter than its superblock says.
proc sifmod_problem_of {path} {
    if {[catch {open $path rb} file]} {
        return unreadable
    }
    set head [read $file 48]
    close $file
    if {[binary scan $head a4@40w magic length] == 2 && $magic eq "hsqs"
        && 96 <= $length && $length <= [file size $path]} {
        return {}
    }
    return damaged
}
set directory "/home/me/Mine/1/user-software"
set packed "/home/me/Mine/1/user-software.squashfs"
set has_directory [file isdirectory $directory]
set is_packed [expr {[file isfile $packed]
    && !($has_directory && [file isfile "/home/me/Mine/1/user-software.unpacked"])}]
set problem [expr {$is_packed ? [sifmod_problem_of $packed] : {}}]
if {$problem ne {}} {
    set is_packed 0
    set said(unreadable) [list "/home/me/Mine/1/user-software.squashfs can't be read, so /home/me/Mine/1/user-software is used. Its owner can allow it with: chmod ug+r /home/me/Mine/1/user-software.squashfs" "/home/me/Mine/1/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r /home/me/Mine/1/user-software.squashfs"]
    set said(damaged) [list "/home/me/Mine/1/user-software.squashfs is damaged, so /home/me/Mine/1/user-software is used. Pack it again with: rm /home/me/Mine/1/user-software.squashfs; make-squashfs" "/home/me/Mine/1/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or begin anew with: rm /home/me/Mine/1/user-software.squashfs; eb --rebuild"]
    if {$sifmod_loading} {
        puts stderr "Warning: [lindex $said($problem) [expr {!$has_directory}]]"
    }
}
if {$is_packed} {
    lappend binds "/home/me/Mine/1/user-software.squashfs:/user-software:ro,image-src=/"
} elseif {$has_directory} {
    lappend binds "/home/me/Mine/1/user-software:/user-software"
} elseif {$sifmod_loading && $problem eq {}} {
    puts stderr "Warning: the user software is missing: neither /home/me/Mine/1/user-software nor /home/me/Mine/1/user-software.squashfs exists. Make it again, without your packages, with: eb --rebuild"
}

# Layers: user software below the user's own. Of an installation's, the one with the highest number is the newest, and the first
# below. `source` is its path in a bind path.
set layers {}
set layer_folders {}
proc sifmod_find_layers {root source} {
    set folder "/user-software.layers/"
    set count 0
    while {$count < 8 && [file isfile $root$folder[expr {$count + 1}].squashfs]} {
        incr count
    }
    set found {}
    for {set number $count} {$number > 0} {incr number -1} {
        lappend found $root$folder$number.squashfs $source$folder$number.squashfs 1
    }
    return $found
}
lappend layers {*}[sifmod_find_layers "/home/me/Mine/1" "/home/me/Mine/1"]

# The user software of what this module builds on comes after it, and then the layers of that, as long as its manifest says what it
# did when this module was installed.
proc sifmod_find_base {root source said} {
    set folder "/user-software"
    set name "/user-software.squashfs"
    set mark "/user-software.unpacked"
    set is_there [file isdirectory $root$folder]
    set found {}
    if {[file isfile $root$name] && !($is_there && ([file isfile $root$mark] || [sifmod_problem_of $root$name] ne {}))} {
        lappend found $root$name $source$name 1
    } elseif {$is_there} {
        lappend found $root$folder $source$folder 0
    } elseif {$said ne {}} {
        puts stderr "Warning: $said"
    }
    return [concat $found [sifmod_find_layers $root $source]]
}
if {![file isfile "/projects/it's, \[x\]/share/sifmod.json"] || [catch {open "/projects/it's, \[x\]/share/sifmod.json" r} file]} {
    if {$sifmod_loading} {
        puts stderr "Warning: [lindex [list "/projects/it's, \[x\] (Team/1) is gone or can't be read, so its packages are missing. Ask its owner"] 0]"
    }
} else {
    set text [read $file]
    close $file
    if {[string first "\u000a  \"python_version\": \"3.11\",\u000a" $text] >= 0} {
        if {$sifmod_loading && [string first "\u000a  \"venv\": \"demo\",\u000a" $text] < 0} {
            puts stderr "Warning: [lindex [list "/projects/it's, \[x\] (Team/1) has another virtual environment now than demo, so its packages are missing. Ask its owner for that one, or install your packages in a new version of the module with carry-over"] 0]"
        } elseif {$sifmod_loading && [string first "\u000a  \"image_id\": \"0123\",\u000a" $text] < 0} {
            puts stderr "Note: [lindex [list "/projects/it's, \[x\] (Team/1) has another image now than when Mine/1 was installed, with the same Python. To see what does not fit: list-packages --check"] 0]"
        }
        lappend layers {*}[sifmod_find_base "/projects/it's, \[x\]" "/projects/it's\\, \[x\]" [expr {$sifmod_loading ? "/projects/it's, \[x\] (Team/1) has no user software now, so its packages are missing. Ask its owner" : {}}]]
    } elseif {$sifmod_loading} {
        if {$sifmod_lmod} {
            error "/projects/it's, \[x\] (Team/1) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over"
        }
        puts stderr "/projects/it's, \[x\] (Team/1) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over"
        break
    }
}
if {![file isfile "/apps/Python/3.11/share/sifmod.json"] || [catch {open "/apps/Python/3.11/share/sifmod.json" r} file]} {
    if {$sifmod_loading} {
        puts stderr "Warning: [lindex [list "/apps/Python/3.11 (Python/3.11) is gone or can't be read, so its packages are missing. Ask its owner"] 0]"
    }
} else {
    set text [read $file]
    close $file
    if {[string first "\u000a  \"python_version\": \"3.11\",\u000a" $text] >= 0} {
        if {$sifmod_loading && [string first "\u000a  \"venv\": \"demo\",\u000a" $text] < 0} {
            puts stderr "Warning: [lindex [list "/apps/Python/3.11 (Python/3.11) has another virtual environment now than demo, so its packages are missing. Ask its owner for that one, or install your packages in a new version of the module with carry-over"] 0]"
        } elseif {$sifmod_loading && [string first "\u000a  \"image_id\": \"0123\",\u000a" $text] < 0} {
            puts stderr "Note: [lindex [list "/apps/Python/3.11 (Python/3.11) has another image now than when Mine/1 was installed, with the same Python. To see what does not fit: list-packages --check"] 0]"
        }
        lappend layers {*}[sifmod_find_base "/apps/Python/3.11" "/apps/Python/3.11" [expr {$sifmod_loading ? "/apps/Python/3.11 (Python/3.11) has no user software now, so its packages are missing. Ask its owner" : {}}]]
    } elseif {$sifmod_loading} {
        if {$sifmod_lmod} {
            error "/apps/Python/3.11 (Python/3.11) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over"
        }
        puts stderr "/apps/Python/3.11 (Python/3.11) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over"
        break
    }
}

set number 0
foreach {path source is_packed} $layers {
    incr number
    set below [join [list "/user-layers" $number] /]
    if {$number <= 8 && ($is_packed ? [sifmod_problem_of $path] eq {} : [file readable $path])} {
        lappend binds $source:$below[expr {$is_packed ? ":ro,image-src=/" : ":ro"}]
        lappend layer_folders [join [list $below venv "demo"] /]
    } elseif {$sifmod_loading && $number <= 8} {
        puts stderr "Warning: $path [lindex [list "is left out, and its packages are missing: it can't be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r"] 0]"
    } elseif {$sifmod_loading} {
        puts stderr "Warning: $path [lindex [list "is left out, and its packages are missing: containers have at most 8 layers"] 0]"
    }
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

# Variables in the container only: the effect of activating its Python, and settings that would hurt programs of the host.
sifmod_set SINGULARITYENV_PIP_CONSTRAINT "/runscripts/pip-constraints.txt"
sifmod_set APPTAINERENV_PIP_CONSTRAINT "/runscripts/pip-constraints.txt"
sifmod_set SINGULARITYENV_UV_EXCLUDE "/runscripts/pip-constraints.txt"
sifmod_set APPTAINERENV_UV_EXCLUDE "/runscripts/pip-constraints.txt"
sifmod_set SINGULARITYENV_VIRTUAL_ENV "/user-software/venv/demo"
sifmod_set APPTAINERENV_VIRTUAL_ENV "/user-software/venv/demo"
sifmod_set SINGULARITYENV_VIRTUAL_ENV_PROMPT "(demo) "
sifmod_set APPTAINERENV_VIRTUAL_ENV_PROMPT "(demo) "
sifmod_set SINGULARITYENV_WITH_CONDA_VENV "source /runscripts/init-conda-venv"
sifmod_set APPTAINERENV_WITH_CONDA_VENV "source /runscripts/init-conda-venv"
sifmod_set SINGULARITYENV_WITH_VENV "source /user-software/venv/demo/bin/activate"
sifmod_set APPTAINERENV_WITH_VENV "source /user-software/venv/demo/bin/activate"
set search_path "/runscripts:/user-software/venv/demo/bin"
foreach folder $layer_folders {
    append search_path :$folder/bin
}
append search_path ""
sifmod_set SINGULARITYENV_PREPEND_PATH $search_path
sifmod_set APPTAINERENV_PREPEND_PATH $search_path
# what was set when the module was loaded is unset, however many layers there are by then
set layered "__SIFMOD_LAYERS_MINE"
if {$sifmod_unloading ? [sifmod_has $layered] : [llength $layer_folders]} {
    sifmod_set $layered [llength $layer_folders]
    foreach {name folder} [list CMAKE_PREFIX_PATH "" JUPYTER_PATH "/share/jupyter" MANPATH "/share/man" PKG_CONFIG_PATH "/lib/pkgconfig" ] {
        set found {}
        foreach layer $layer_folders {
            lappend found $layer$folder
        }
        # an empty entry stands for the places where man looks by itself
        if {[sifmod_has SINGULARITYENV_$name]} {
            lappend found $env(SINGULARITYENV_$name)
        } elseif {$name eq "MANPATH"} {
            lappend found {}
        }
        sifmod_set SINGULARITYENV_$name [join $found :]
        sifmod_set APPTAINERENV_$name [join $found :]
    }
}
sifmod_set SINGULARITYENV_PYTHONHOME ""
sifmod_set APPTAINERENV_PYTHONHOME ""
sifmod_set SINGULARITYENV_PYTHONNOUSERSITE "1"
sifmod_set APPTAINERENV_PYTHONNOUSERSITE "1"
sifmod_set SINGULARITYENV_UV_LINK_MODE "copy"
sifmod_set APPTAINERENV_UV_LINK_MODE "copy"

# The `eb` of EasyBuild takes the first python3 in PATH, which is this container's now, unless this variable names another.
# EB_PYTHON is the user's, and comes before it.
set eb_python {}
if {[sifmod_has EB_INSTALLPYTHON]} {
    set eb_python $env(EB_INSTALLPYTHON)
} elseif {[info exists env(PATH)]} {
    foreach folder [split $env(PATH) :] {
        if {$eb_python eq {} && $folder ne "/home/me/Mine/1/bin" && [file isfile $folder/python3]} {
            set eb_python $folder/python3
        }
    }
}
if {$eb_python ne {}} {
    sifmod_set EB_INSTALLPYTHON $eb_python
}

# Packing changes what is bound, so these commands reload the module in the calling shell.
# Such a name of a function ends a script whose bash is in POSIX mode, as all are that /bin/sh runs where it is bash. So the shell
# itself looks, and set-function is not used: it would also undo the function without a look.
if {[module-info shell] in {bash zsh}} {
    set unless_posix "case :\${SHELLOPTS-}: in *:posix:*) ;; *) "
    set me [module-info name]
    set reload [expr {$sifmod_lmod ? "module load $me" : "module switch $me $me"}]
    foreach command {make-squashfs unmake-squashfs add-layer remove-layer flatten-layers} {
        if {$sifmod_loading} {
            set define "$command () { env SIFMOD_RELOADS=1 $command \"\$@\" && $reload; };;"
            puts stdout "$unless_posix$define esac"
        } elseif {$sifmod_unloading && $sifmod_is_last} {
            puts stdout "${unless_posix}unset -f $command 2>/dev/null || :;; esac"
        }
    }
}
