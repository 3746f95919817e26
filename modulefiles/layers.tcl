
# Uses own, said, layers, sifmod_problem_of, sifmod_say (user_software).
# Each layer that can be read is bound, the newest first, and what lets programs search them.
set without_layers [llength $v(binds)]
set number 0
foreach {path source is_file} $layers {
    incr number
    if {$number > $own(most_layers)} {
        sifmod_say "Warning: $path $said(too_many_layers)"
    } elseif {$is_file ? [sifmod_problem_of $path] ne {} : ![file readable $path]} {
        sifmod_say "Warning: $path $said(layer_is_left_out)"
    } else {
        lappend v(binds) $source:$own(layers_at)$number[expr {$is_file ? ":ro,image-src=/" : ":ro"}]
    }
}
if {[llength $v(binds)] > $without_layers && $own(at_start) ne {}} {
    lappend v(binds) $own(at_start)
}
