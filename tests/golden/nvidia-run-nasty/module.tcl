
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
set sif "/tmp/a b,c'd\$e/nasty \$image \"1\".sif"
foreach {central size id} [list "/central \"images\"/nasty \$image \"1\".sif" 12345678901 "0123456789abcdef0123456789abcdef" "/cent`ral`/nasty \$image \"1\".sif" 12345678901 "0123456789abcdef0123456789abcdef"] {
    if {![file isfile $sif] && [sifmod_is_copy $central $size $id]} {
        set sif $central
    }
}
if {$sifmod_loading && ![file isfile $sif]} {
    if {$sifmod_lmod} {
        error "the image '/tmp/a b,c'd\$e/nasty \$image \"1\".sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    }
    puts stderr "the image '/tmp/a b,c'd\$e/nasty \$image \"1\".sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild"
    break
}
sifmod_set SIF $sif
sifmod_set "SIFPYTORCHMINNGC" $sif
sifmod_set CONTAINERROOT "/tmp/a b,c'd\$e"
sifmod_set RUNSCRIPTS "/tmp/a b,c'd\$e/runscripts"
sifmod_set "RUNSCRIPTSPYTORCHMINNGC" "/tmp/a b,c'd\$e/runscripts"

# What the cluster offers to containers: each feature in use that applies on this node adds bind paths and variables. The record
# says which these were, for the unload, and for commands on other nodes.

# sifmod_is_host PATTERN...: whether one of them matches the name of this node: its own, short or in full, or Slurm's for it. The
# variable HOSTNAME of a job is that of the login node.
proc sifmod_is_host {args} {
    set names {}
    if {![catch {open /proc/sys/kernel/hostname} file]} {
        set name [gets $file]
        close $file
        lappend names $name [lindex [split $name .] 0]
    }
    if {[sifmod_has SLURMD_NODENAME]} {
        lappend names $::env(SLURMD_NODENAME)
    }
    foreach pattern $args {
        if {[lsearch -glob $names $pattern] >= 0} {
            return 1
        }
    }
    return 0
}

# sifmod_nearest WORD KNOWN...: the known name with the fewest differences, if these are at most half of its letters, rounded up.
proc sifmod_nearest {word args} {
    set near {}
    set best 99
    foreach known $args {
        set row {0}
        for {set j 1} {$j <= [string length $known]} {incr j} {
            lappend row $j
        }
        for {set i 1} {$i <= [string length $word]} {incr i} {
            set diagonal [lindex $row 0]
            lset row 0 $i
            for {set j 1} {$j <= [string length $known]} {incr j} {
                set above [lindex $row $j]
                set changed [expr {[string index $word $i-1] ne [string index $known $j-1]}]
                lset row $j [expr {min($above + 1, [lindex $row $j-1] + 1, $diagonal + $changed)}]
                set diagonal $above
            }
        }
        if {[lindex $row end] < $best && 2 * [lindex $row end] <= [string length $known] + 1} {
            set best [lindex $row end]
            set near $known
        }
    }
    return $near
}

# sifmod_matches PATTERN FOLDER OPTIONS: the bind paths of what it matches, into a folder of the container if there is one.
proc sifmod_matches {pattern folder options} {
    set found {}
    foreach path [lsort [glob -nocomplain -- $pattern]] {
        if {![file exists $path] || [regexp {[,:\\^[:cntrl:]]|\s$} $path]} {
            continue
        }
        set bind [list $path]
        if {$folder ne {}} {
            lappend bind $folder[file tail $path]
        } elseif {$options ne {}} {
            lappend bind $path
        }
        if {$options ne {}} {
            lappend bind $options
        }
        lappend found [join $bind :]
    }
    return $found
}

set known [list it-s gpus other]
set chosen [list it-s gpus]
if {[sifmod_has SIFMOD_FEATURES]} {
    foreach change [regexp -all -inline {[^,\s]+} $env(SIFMOD_FEATURES)] {
        set name [regsub {^-} $change {}]
        if {$name in $known} {
            set chosen [lsearch -all -inline -not -exact $chosen $name]
            if {$change eq $name} {
                lappend chosen $name
            }
        } elseif {$sifmod_loading} {
            set name [string range [regsub -all {[^a-zA-Z0-9_-]} $name ?] 0 39]
            set near [sifmod_nearest $name {*}$known]
            set perhaps [expr {$near eq {} ? {} : " (perhaps you meant '$near')"}]
            puts stderr "SIFMOD_FEATURES: there is no feature '$name'$perhaps: use [join $known {, }]"
        }
    }
}
# Those in use whose conditions this node meets: the others conflict with nothing here.
set usable {}
if {"it-s" in $chosen && [file exists "/it's/\$HOME \[x\]"] && [sifmod_is_host "nid\[0-9\]*" "a-b.c?"]} {
    lappend usable it-s
}
if {"gpus" in $chosen && [file exists "/dev/kfd"]} {
    lappend usable gpus
}
if {"other" in $chosen} {
    lappend usable other
}
if {$sifmod_loading && "it-s" in $usable && "other" in $usable} {
    if {$sifmod_lmod} {
        error "the features 'it-s' and 'other' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other"
    }
    puts stderr "the features 'it-s' and 'other' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other"
    break
}
set before {}
if {[sifmod_has __SIFMOD_FEATURES_PYTORCHMINNGC]} {
    set before [split [lindex [split $env(__SIFMOD_FEATURES_PYTORCHMINNGC) :] 1] ,]
}
set features_binds {}
set in_use {}
set applied {}
set library_path {}
array set plain {}
array set twins {}
set plain(QUOTES) [join [list "it's \"" [sifmod_env HOME] "\" `id` \\n"] {}]
set twins(ENV_PYTHONNOUSERSITE) "1"

set applies [expr {"it-s" in $usable}]
if {"it-s" in $chosen} {
    lappend in_use it-s
}
if {$sifmod_unloading} {
    set applies [expr {"it-s" in $before}]
} elseif {$applies} {
    set found {}
    set missing {}
    set more [sifmod_matches "/it's \$HOME/\[a-c\]*/lib?.so" "/ho st/" ""]
    lappend found {*}$more
    if {$more eq {} && $missing eq {}} {
        set missing "the feature 'it-s' needs '/it's \$HOME/\[a-c\]*/lib?.so', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s"
    }
    set more [expr {[file exists "/a,b"] ? [list "/a\\,b:/it's:ro"] : {}}]
    lappend found {*}$more
    if {$more eq {} && $missing eq {}} {
        set missing "the feature 'it-s' needs '/a,b', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s"
    }
    set more [sifmod_matches "/dev/cxi\[0-9\]" "" "ro"]
    lappend found {*}$more
    set more [expr {[file exists "/x y"] ? [list "/x y"] : {}}]
    lappend found {*}$more
    if {$missing ne {}} {
        set applies 0
        if {$sifmod_loading} {
            puts stderr "Warning: $missing"
        }
    } else {
        foreach bind $found {
            if {$bind ni $features_binds} {
                lappend features_binds $bind
            }
        }
    }
}
if {$applies} {
    lappend applied it-s
    unset -nocomplain plain(QUOTES)
    set plain(FEATURE) [join [list "it's \"" [sifmod_env HOME] "\" `id` \\n"] {}]
    set twins(ENV_INNER) "\$(id) it's"
    unset -nocomplain twins(ENV_PYTHONNOUSERSITE)
    set twins(_NO_UMASK) "1"
    set twins(_NO_MOUNT) "a 'b'"
    lappend library_path "/ho+st/lib:/it%s"
}

set applies [expr {"gpus" in $usable}]
if {"gpus" in $chosen} {
    lappend in_use gpus
}
if {$sifmod_unloading} {
    set applies [expr {"gpus" in $before}]
} elseif {$applies} {
    set found {}
    set missing {}
    if {$missing ne {}} {
        set applies 0
        if {$sifmod_loading} {
            puts stderr "Warning: $missing"
        }
    } else {
        foreach bind $found {
            if {$bind ni $features_binds} {
                lappend features_binds $bind
            }
        }
    }
}
if {$applies} {
    lappend applied gpus
    lappend library_path "/gpus"
}

set applies [expr {"other" in $usable}]
if {"other" in $chosen} {
    lappend in_use other
}
if {$sifmod_unloading} {
    set applies [expr {"other" in $before}]
} elseif {$applies} {
    set found {}
    set missing {}
    if {$missing ne {}} {
        set applies 0
        if {$sifmod_loading} {
            puts stderr "Warning: $missing"
        }
    } else {
        foreach bind $found {
            if {$bind ni $features_binds} {
                lappend features_binds $bind
            }
        }
    }
}
if {$applies} {
    lappend applied other
}

if {$library_path ne {}} {
    set twins(ENV_LD_LIBRARY_PATH) [join $library_path :]
    append twins(ENV_LD_LIBRARY_PATH) "\$\{LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH\}"
}
foreach name [lsort [array names plain]] {
    sifmod_set $name $plain($name)
}
foreach name [lsort [array names twins]] {
    sifmod_set SINGULARITY$name $twins($name)
    sifmod_set APPTAINER$name $twins($name)
}
foreach name [list __SIFMOD_FEATURES_PYTORCHMINNGC __SIFMOD_FEATURES] {
    sifmod_set $name [join $in_use ,]:[join $applied ,]
}

# Bind paths: those that the container needs, the optional ones that exist here, the user software, and the user's own.
set binds {}
lappend binds "/tmp/a b\\,c'd\$e/runscripts:/runscripts:ro"
lappend binds "/site\\,data:/data 1:ro"
lappend binds "/own\\,data:/own:rw"
lappend binds "/plain"
if {[file exists "/it's/\$HOME"]} {
    lappend binds "/it's/\$HOME"
}
lappend binds {*}$features_binds

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
set directory "/tmp/a b,c'd\$e/user-software"
set packed "/tmp/a b,c'd\$e/user-software.squashfs"
set has_directory [file isdirectory $directory]
set is_packed [expr {[file isfile $packed]
    && !($has_directory && [file isfile "/tmp/a b,c'd\$e/user-software.unpacked"])}]
set problem [expr {$is_packed ? [sifmod_problem_of $packed] : {}}]
if {$problem ne {}} {
    set is_packed 0
    set said(unreadable) [list "/tmp/a b,c'd\$e/user-software.squashfs can't be read, so /tmp/a b,c'd\$e/user-software is used. Its owner can allow it with: chmod ug+r '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'" "/tmp/a b,c'd\$e/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'"]
    set said(damaged) [list "/tmp/a b,c'd\$e/user-software.squashfs is damaged, so /tmp/a b,c'd\$e/user-software is used. Pack it again with: rm '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'; make-squashfs" "/tmp/a b,c'd\$e/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or begin anew with: rm '/tmp/a b,c'\"'\"'d\$e/user-software.squashfs'; eb --rebuild"]
    if {$sifmod_loading} {
        puts stderr "Warning: [lindex $said($problem) [expr {!$has_directory}]]"
    }
}
if {$is_packed} {
    lappend binds "/tmp/a b\\,c'd\$e/user-software.squashfs:/user-software:ro,image-src=/"
} elseif {$has_directory} {
    lappend binds "/tmp/a b\\,c'd\$e/user-software:/user-software"
} elseif {$sifmod_loading && $problem eq {}} {
    puts stderr "Warning: the user software is missing: neither /tmp/a b,c'd\$e/user-software nor /tmp/a b,c'd\$e/user-software.squashfs exists. Make it again, without your packages, with: eb --rebuild"
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
lappend layers {*}[sifmod_find_layers "/tmp/a b,c'd\$e" "/tmp/a b\\,c'd\$e"]
set number 0
foreach {path source is_packed} $layers {
    incr number
    set below [join [list "/user-layers" $number] /]
    if {$number <= 8 && ($is_packed ? [sifmod_problem_of $path] eq {} : [file readable $path])} {
        lappend binds $source:$below[expr {$is_packed ? ":ro,image-src=/" : ":ro"}]
        lappend layer_folders [join [list $below venv "a+b"] /]
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
sifmod_set SINGULARITY_NV 1
sifmod_set APPTAINER_NV 1

# Variables in the container only: the effect of activating its Python, and settings that would hurt programs of the host.
sifmod_set SINGULARITYENV_VIRTUAL_ENV "/user-software/venv/a+b"
sifmod_set APPTAINERENV_VIRTUAL_ENV "/user-software/venv/a+b"
sifmod_set SINGULARITYENV_VIRTUAL_ENV_PROMPT "(a+b) "
sifmod_set APPTAINERENV_VIRTUAL_ENV_PROMPT "(a+b) "
sifmod_set SINGULARITYENV_WITH_CONDA_VENV "source /runscripts/init-conda-venv"
sifmod_set APPTAINERENV_WITH_CONDA_VENV "source /runscripts/init-conda-venv"
sifmod_set SINGULARITYENV_WITH_VENV "source /user-software/venv/a+b/bin/activate"
sifmod_set APPTAINERENV_WITH_VENV "source /user-software/venv/a+b/bin/activate"
set search_path "/runscripts:/user-software/venv/a+b/bin"
foreach folder $layer_folders {
    append search_path :$folder/bin
}
append search_path ":/opt/venv/bin"
sifmod_set SINGULARITYENV_PREPEND_PATH $search_path
sifmod_set APPTAINERENV_PREPEND_PATH $search_path
# what was set when the module was loaded is unset, however many layers there are by then
set layered "__SIFMOD_LAYERS_PYTORCHMINNGC"
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
sifmod_set SINGULARITYENV_PREPEND_LD_LIBRARY_PATH "/.singularity.d/libs"
sifmod_set APPTAINERENV_PREPEND_LD_LIBRARY_PATH "/.singularity.d/libs"
sifmod_set SINGULARITYENV_PYTHONHOME ""
sifmod_set APPTAINERENV_PYTHONHOME ""
sifmod_set SINGULARITYENV_UV_LINK_MODE "copy"
sifmod_set APPTAINERENV_UV_LINK_MODE "copy"

# The other settings. The container inherits them, so what the user exports later counts.
sifmod_set EMPTY ""
sifmod_set SHARED "easyconfig's"

# Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
# only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
set cache [join [list "/it's " [sifmod_env SLURM_JOB_ACCOUNT] "/\$(id),a:b/" [sifmod_env USER]] {}]
set cache_is_known 1
foreach name [list SLURM_JOB_ACCOUNT USER] {
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
foreach {name folder} [list HF_HOME "hugging 'face'" TORCH_HOME "a/b"] {
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
    puts stderr "Warning: [append cache_problem ", " "so `singularity exec` uses default places for caches. The site has them in /it's \$\{SLURM_JOB_ACCOUNT\}/\$(id),a:b/\$\{USER\}"]"
}

# The `eb` of EasyBuild takes the first python3 in PATH, which is this container's now, unless this variable names another.
# EB_PYTHON is the user's, and comes before it.
set eb_python {}
if {[sifmod_has EB_INSTALLPYTHON]} {
    set eb_python $env(EB_INSTALLPYTHON)
} elseif {[info exists env(PATH)]} {
    foreach folder [split $env(PATH) :] {
        if {$eb_python eq {} && $folder ne "/tmp/a b,c'd\$e/bin" && [file isfile $folder/python3]} {
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
