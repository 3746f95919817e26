
# Uses sifmod_expand (expand); sifmod_matches (patterns).
# What the cluster offers to containers: each feature in use that applies on this node adds bind paths and variables. The record
# says which these were, for the unload, and for commands on other nodes.

# The names of this node: its own, short or in full, and Slurm's. The variable HOSTNAME of a job is that of the login node.
set hosts {}
if {![catch {open /proc/sys/kernel/hostname} file]} {
    set name [gets $file]
    close $file
    lappend hosts $name [lindex [split $name .] 0]
}
if {[sifmod_has SLURMD_NODENAME]} {
    lappend hosts $env(SLURMD_NODENAME)
}
set partitions [expr {[sifmod_has SLURM_JOB_PARTITION] ? [list $env(SLURM_JOB_PARTITION)] : {}}]

# sifmod_is_one_of PATTERNS NAMES: whether one of the patterns, if there are any, matches one of the names.
proc sifmod_is_one_of {patterns names} {
    foreach pattern $patterns {
        if {[lsearch -glob $names $pattern] >= 0} {
            return 1
        }
    }
    return [expr {![llength $patterns]}]
}

set chosen [dict get $v(features) chosen]
set known [dict get $v(features) names]
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
            puts stderr "SIFMOD_FEATURES: there is no feature '$name': use [join $known {, }]"
        }
    }
}
# Those in use whose conditions this node meets: the others conflict with nothing here.
set usable {}
foreach feature [dict get $v(features) all] {
    set is_met [expr {[dict get $feature name] in $chosen && [sifmod_is_one_of [dict get $feature hosts] $hosts]
        && [sifmod_is_one_of [dict get $feature partitions] $partitions]}]
    foreach path [dict get $feature needs] {
        set is_met [expr {$is_met && [file exists $path]}]
    }
    if {$is_met} {
        lappend usable [dict get $feature name]
    }
}
set refused {}
foreach refusal [dict get $v(features) refusals] {
    set is_met [expr {$sifmod_loading && $refused eq {}}]
    foreach name [dict get $refusal features] {
        set is_met [expr {$is_met && $name in $usable}]
    }
    if {$is_met} {
        set refused [dict get $refusal message]
    }
}
if {$refused ne {}} {
    sifmod_fail $refused
}

# sifmod_binds_of FEATURE: its bind paths on this node, or a message, in a list before it, if one is missing that it needs.
proc sifmod_binds_of {feature} {
    set found {}
    foreach bind [dict get $feature binds] {
        if {[dict exists $bind pattern]} {
            set more [sifmod_matches [dict get $bind pattern] [dict get $bind folder] [dict get $bind options]]
        } else {
            set more [expr {[file exists [dict get $bind source]] ? [list [dict get $bind argument]] : {}}]
        }
        if {$more eq {} && [dict exists $bind missing]} {
            return [list [dict get $bind missing] {}]
        }
        lappend found {*}$more
    }
    return [list {} $found]
}

# sifmod_change FEATURE: change variables as it says. Features replace or remove variables that are set without them.
proc sifmod_change {feature} {
    foreach kind {exported runtime_variables} {
        foreach row [dict get $feature $kind] {
            lassign $row name value
            if {[llength $row] == 2} {
                set ::${kind}($name) $value
            } else {
                unset -nocomplain ::${kind}($name)
            }
        }
    }
}
array set exported {}
array set runtime_variables {}
sifmod_change $v(features)
set record [dict get $v(features) record]
set before {}
if {[sifmod_has $record]} {
    set before [split [lindex [split $env($record) :] 1] ,]
}
set features_binds {}
set in_use {}
set applied {}
set library_path {}
foreach feature [dict get $v(features) all] {
    set name [dict get $feature name]
    if {$name in $chosen} {
        lappend in_use $name
    }
    set applies [expr {$name in ($sifmod_unloading ? $before : $usable)}]
    if {$applies && !$sifmod_unloading} {
        lassign [sifmod_binds_of $feature] missing found
        if {$missing ne {}} {
            set applies 0
            if {$sifmod_loading} {
                puts stderr "Warning: $missing"
            }
        }
        foreach bind $found {
            if {$bind ni $features_binds} {
                lappend features_binds $bind
            }
        }
    }
    if {$applies} {
        lappend applied $name
        sifmod_change $feature
        if {[dict get $feature library_path] ne {}} {
            lappend library_path [dict get $feature library_path]
        }
    }
}
lappend v(binds) {*}$features_binds
if {$library_path ne {}} {
    set runtime_variables(ENV_LD_LIBRARY_PATH) [join $library_path :][dict get $v(features) library_tail]
}
foreach name [lsort [array names exported]] {
    sifmod_set $name [sifmod_expand $exported($name) $v(expanded)]
}
foreach name [lsort [array names runtime_variables]] {
    sifmod_set_twins $name $runtime_variables($name)
}
foreach name [list $record __SIFMOD_FEATURES] {
    sifmod_set $name [join $in_use ,]:[join $applied ,]
}
