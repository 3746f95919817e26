
# An image that lies unpacked, such as on CVMFS: with other labels it is another one than that of the install.
if {$sifmod_loading && [dict exists $v(unpacked) labels]} {
    set file_name $v(image)/[dict get $v(unpacked) labels_file]
    set labels ""
    if {[file isfile $file_name] && ![catch {open $file_name rb} file]} {
        set labels [read $file [dict get $v(unpacked) most]]
        close $file
    }
    if {$labels ne [dict get $v(unpacked) labels]} {
        sifmod_fail [dict get $v(unpacked) has_changed]
    }
}
