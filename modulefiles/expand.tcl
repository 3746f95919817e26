
# sifmod_expand TEXT NAMES: the text with the values of these variables for $NAME and ${NAME}. Any other dollar sign stays.
proc sifmod_expand {text names} {
    set done {}
    set start 0
    foreach {all bare braced} [regexp -all -inline -indices {\$(?:([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})} $text] {
        set name [string range $text {*}$bare][string range $text {*}$braced]
        if {$name in $names} {
            append done [string range $text $start [lindex $all 0]-1]
            if {[sifmod_has $name]} {
                append done $::env($name)
            }
            set start [expr {[lindex $all 1] + 1}]
        }
    }
    return $done[string range $text $start end]
}
