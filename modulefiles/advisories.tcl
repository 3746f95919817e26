
# Known problems, each once in a shell, unless the variables are as the remedy says.
set advised {}
if {[sifmod_has $v(advised)]} {
    # the shell runs what is made of it
    regsub -all {[^A-Za-z0-9.:-]} $env($v(advised)) {} advised
}
set shown $advised
foreach advisory $v(advisories) {
    dict with advisory {}
    set is_remedied [expr {[llength $variables] > 0}]
    foreach variable $variables {
        lassign $variable name value
        set is_set [expr {[llength $variable] == 2}]
        set is_remedied [expr {$is_remedied && [sifmod_has $name] == $is_set && (!$is_set || $env($name) eq $value)}]
    }
    if {!$is_remedied && ![string match "*:$id:*" ":$shown:"]} {
        set shown [join [concat [split $shown :] [list $id]] :]
        if {$sifmod_loading} {
            puts stderr $text
        }
    }
}
if {$sifmod_loading && $shown ne $advised} {
    switch [module-info shelltype] {
        sh { puts stdout "export $v(advised)=$shown;" }
        csh { puts stdout "setenv $v(advised) $shown;" }
        fish { puts stdout "set -gx $v(advised) $shown;" }
    }
}
