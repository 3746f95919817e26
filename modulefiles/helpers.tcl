
# For all parts.
set sifmod_lmod [expr {[info exists ::ModuleTool] ? $::ModuleTool eq "Lmod" : [info exists env(LMOD_VERSION)]}]
set sifmod_loading [module-info mode load]
set sifmod_unloading [module-info mode remove]

# sifmod_has NAME: whether the variable is set. One that environment-modules has just unset is still in env, and empty; its
# getenv says more. That of Lmod 8.7 takes no value for a variable that is not set.
proc sifmod_has {name} {
    if {$::sifmod_lmod || !($::sifmod_loading || $::sifmod_unloading)} { return [info exists ::env($name)] }
    return [expr {[getenv $name "\u0001"] ne "\u0001"}]
}

# sifmod_set NAME VALUE: set a variable until unload. The pushenv of environment-modules splits values at colons and finds only the
# value that it would set today. So there a list of our own keeps the earlier values, as owner, value, owner, value ...
proc sifmod_set {name value} {
    if {$::sifmod_lmod} {
        # its Tcl half sets the variable at once, and its Lua half would take that for the value to restore
        set was [array get ::env $name]
        pushenv $name $value
        array unset ::env $name
        return [array set ::env $was]
    }
    if {!$::sifmod_loading && !$::sifmod_unloading} { return [setenv $name $value] }
    set list __SIFMOD_STACK_$name
    set me [module-info name]
    set owners [expr {[sifmod_has $list] && ![catch {dict size $::env($list)}] ? $::env($list) : {}}]
    set others [dict remove $owners $me]
    if {$::sifmod_loading} {
        if {$owners eq {} && [sifmod_has $name]} { set others [list {} $::env($name)] }
        setenv $list [linsert $others 0 $me $value]
        setenv $name $value
    } elseif {[dict exists $owners $me]} {
        # in this mode setenv unsets and unsetenv sets; the rest of this process sees the value passed to setenv
        if {$others eq {}} { setenv $name {} } else { unsetenv $name [lindex $others 1] }
        if {[lindex $others 0] eq {}} { setenv $list {} } else { unsetenv $list $others }
    }
}

# APPTAINER_X comes before SINGULARITY_X, and SingularityCE reads only the latter.
proc sifmod_set_twins {name value} {
    foreach prefix {SINGULARITY APPTAINER} { sifmod_set $prefix$name $value }
}

# sifmod_fail MESSAGE: end the module. Call it at the top level: environment-modules takes a `break` there.
proc sifmod_fail {message} {
    if {$::sifmod_lmod} { error $message }
    return -code break [puts stderr $message]
}
