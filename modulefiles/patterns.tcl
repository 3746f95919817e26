
# sifmod_matches PATTERN FOLDER OPTIONS: the bind paths of what a pattern with `*`, `?` and `[a-z0-9]` matches, into a folder of the
# container if there is one.
proc sifmod_matches {pattern folder options} {
    set found {}
    foreach path [lsort [glob -nocomplain -- [string map {\\ \\\\ \{ \\\{ \} \\\} ~ \\~} $pattern]]] {
        if {![file exists $path] || [regexp {[,:\\^[:cntrl:]]|\s$} $path]} {
            continue
        }
        set bind [list $path]
        if {$folder ne {}} {
            lappend bind $folder[file tail $path]
        } elseif {$options ne {}} {
            lappend bind $path
        }
        if {$options ne {}} {
            lappend bind $options
        }
        lappend found [join $bind :]
    }
    return $found
}
