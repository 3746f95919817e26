
# Uses names, own, layers, sifmod_find_layers, sifmod_problem_of, sifmod_say (user_software).
# The user software of what this module builds on comes after it, and then the layers of that, as long as its manifest says what it
# did when this module was installed. sifmod_find_base BASE: find them. Return why the module can't be loaded, or nothing.
proc sifmod_find_base {base} {
    dict with base {}
    if {![file isfile $manifest] || [catch {open $manifest {RDONLY NONBLOCK}} file]} {
        sifmod_say "Warning: $is_gone"
        return
    }
    set text [read $file $::own(most_manifest)]
    close $file
    if {[string first $python_line $text] < 0} {
        return $other_python
    }
    if {[string first $venv_line $text] < 0} {
        sifmod_say "Warning: $other_venv"
    } elseif {[string first $image_line $text] < 0} {
        sifmod_say "Note: $other_image"
    }
    array set names [array get ::names]
    set is_there [file isdirectory $root$names(directory)]
    set path $root$names(packed)
    if {[file isfile $path] && !($is_there && ([file isfile $root$names(unpacked_mark)] || [sifmod_problem_of $path] ne {}))} {
        lappend ::layers $path $source$names(packed) 1
    } elseif {$is_there} {
        lappend ::layers $root$names(directory) $source$names(directory) 0
    } else {
        sifmod_say "Warning: $is_missing"
    }
    sifmod_find_layers $root $source
    return
}
set refused {}
foreach base $v(bases) {
    set refused [sifmod_find_base $base]
    if {$sifmod_loading && $refused ne {}} {
        break
    }
}
if {$sifmod_loading && $refused ne {}} {
    sifmod_fail $refused
}
