# Just enough of environment-modules to run the container part of a modulefile in a plain Tcl: what it sets is printed,
# name NUL value NUL. argv: the modulefile, the mode, the shell; the environment comes from the process.
lassign $argv modulefile mode shell
fconfigure stdout -translation binary -encoding utf-8
proc emit {args} {
    foreach word $args { puts -nonewline "$word\0" }
}
proc module-info {what {which {}}} {
    switch $what {
        mode { return [expr {$which eq $::mode || ($which eq "remove" && $::mode eq "unload")}] }
        name { return Demo/1.0-x }
        shell { return $::shell }
        shelltype { return sh }
    }
}
proc getenv {name default} { return [expr {[info exists ::env($name)] ? $::env($name) : $default}] }
proc setenv {name value} {
    set ::env($name) $value
    if {![string match __SIFMOD_STACK_* $name]} { emit $name $value }
}
proc unsetenv {name value} { setenv $name $value }
proc module-whatis {line} {}
proc family {name} { emit family $name }
rename puts really_puts
proc puts {args} {
    if {[regexp {^stdout .*?(make-squashfs|unmake-squashfs|add-layer|remove-layer|flatten-layers)} $args _all command]} {
        emit "function $command" [lindex $args 1]
    } elseif {[string match "stdout *USER_PATH*" $args]} {
        emit execute [string trimright [lindex $args 1] ";"]
    } else {
        really_puts {*}$args
    }
}
set ModuleTool Modules
set code [catch {source -encoding utf-8 $modulefile}]
if {$code == 1} { puts stderr $::errorInfo }
exit [expr {$code != 0}]
