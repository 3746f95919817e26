
# User software: the packed file or the directory, and layers below it.
array set own $v(user_software)
array set names $own(names)
array set said $own(said)

proc sifmod_say {text} {
    if {$::sifmod_loading} {
        puts stderr $text
    }
}

# What is wrong with a packed file: nothing, "unreadable", or "damaged" if it is shorter than its superblock says.
proc sifmod_problem_of {path} {
    dict with ::own(packed_format) {}
    # its owner may have put a FIFO there since it was looked at
    if {[catch {open $path {RDONLY NONBLOCK BINARY}} file]} {
        return unreadable
    }
    set head [read $file [expr {$length_at + 8}]]
    close $file
    if {[binary scan $head a[string length $magic]@${length_at}w found length] == 2 && $found eq $magic
        && $size <= $length && $length <= [file size $path]} {
        return {}
    }
    return damaged
}
set packed $v(installdir)$names(packed)
set has_directory [file isdirectory $v(installdir)$names(directory)]
set is_packed [expr {[file isfile $packed] && !($has_directory && [file isfile $v(installdir)$names(unpacked_mark)])}]
set problem [expr {$is_packed ? [sifmod_problem_of $packed] : {}}]
if {$problem ne {}} {
    sifmod_say "Warning: [lindex $said($problem) [expr {!$has_directory}]]"
}
if {$is_packed && $problem eq {}} {
    lappend v(binds) $own(packed_bind)
} elseif {$has_directory} {
    lappend v(binds) $own(directory_bind)
} elseif {$problem eq {}} {
    sifmod_say "Warning: $said(missing)"
}

# Of an installation's layers, the one with the highest number is the newest, and the first below. `source` is its path in a bind
# path.
set layers {}
proc sifmod_find_layers {root source} {
    set folder $::names(layers)
    set count 0
    set next $root${folder}1
    # what has a mark is a layer no longer
    while {$count < $::own(most_layers) && [file isfile $next.squashfs] && ![file isfile $next.unused]} {
        incr count
        set next $root$folder[expr {$count + 1}]
    }
    if {$count < $::own(most_layers) && [file isfile $next.txt] && ![file isfile $next.squashfs] && ![file isfile $next.unused]} {
        sifmod_say "Warning: $next.squashfs $::said(layer_is_gone)"
    }
    for {set number $count} {$number > 0} {incr number -1} {
        lappend ::layers $root$folder$number.squashfs $source$folder$number.squashfs 1
    }
}
sifmod_find_layers $v(installdir) $own(source)
