
# Without the installation's own image, one of the site's of the same size and with the same identifier in its header.
proc sifmod_is_copy {path size id} {
    if {![file isfile $path] || !$size} {
        return [file isfile $path]
    }
    if {[file size $path] != $size || [catch {open $path rb} file]} {
        return 0
    }
    seek $file [dict get $::v(image_header) id_at]
    binary scan [read $file [dict get $::v(image_header) id_length]] H* found
    close $file
    return [expr {$id eq "" || $found eq $id}]
}
foreach central $v(central) {
    if {![file isfile $v(image)] && [sifmod_is_copy {*}$central]} {
        set v(image) [lindex $central 0]
    }
}
