
# Optional bind paths, if they exist here.
foreach optional $v(optional_binds) {
    if {[file exists [lindex $optional 0]]} {
        lappend v(binds) [lindex $optional 1]
    }
}
