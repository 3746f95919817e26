
# Uses sifmod_expand (expand).
# Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
# only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
array set cache $v(cache)
set root [sifmod_expand $cache(root) $cache(expanded)]
# What lets others put their files into a folder, from the top to the folder itself: {} if nothing. A folder that others may write
# to passes if it has the sticky bit and the next one is root's or the user's; a link in it does not.
proc sifmod_problem_of_way {path} {
    dict with ::cache(way) {}
    set unusable $::cache(unusable)
    file stat /proc/self me
    set done {}
    set rest $path/
    set links 0
    array set open {}
    while {$rest ne {}} {
        set end [string first / $rest]
        set part [string range $rest 0 [expr {$end - 1}]]
        set rest [string range $rest [expr {$end + 1}] end]
        if {$part eq {..}} {
            set done [string range $done 0 [expr {[string last / $done] - 1}]]
            continue
        } elseif {$part eq {.} || ($part eq {} && $done ne {})} {
            continue
        }
        set name $done/$part
        if {[catch {file lstat $name found}]} {
            return [expr {[lindex $::errorCode 1] eq {ENOENT} ? {} : "'$name' $unusable"}]
        }
        set others_write [expr {$found(mode) & 0o022}]
        set is_link [expr {$found(type) eq {link}}]
        if {$is_link && ([info exists open($done)] || $links == 40 || $rest eq {})} {
            return "'$name' $link"
        } elseif {$found(uid) != $me(uid) && ($found(uid) != 0 || $rest eq {})} {
            return "'$name' $foreign"
        } elseif {$is_link} {
            set target [file readlink $name]
            incr links
            if {[string index $target 0] eq {/}} {
                set done {}
            }
            set rest $target/$rest
        } elseif {$others_write && ($rest eq {} || !($found(mode) & 0o1000))} {
            return "'$name' $shared"
        } else {
            if {$part ne {}} {
                set done $name
            }
            if {$others_write} {
                set open($done) 1
            }
        }
    }
    if {[file exists $path] && !([file isdirectory $path] && [file writable $path] && [file executable $path])} {
        return "'$path' $unusable"
    }
    return {}
}
set cache_is_known 1
foreach name $cache(expanded) {
    if {![sifmod_has $name] || $env($name) eq {}} {
        set cache_is_known 0
    }
}
set cache_problem {}
if {![string match /* $root] || [regexp {//|/\.\.?/|[[:cntrl:]]} $root/]} {
    set cache_problem $cache(unclean)
} elseif {[set cache_problem [sifmod_problem_of_way $root]] eq {} && ![file exists $root]} {
    set cache_problem "'$root' $cache(missing)"
}
foreach variable $cache(folders) {
    set folder $root
    foreach part [split [lindex $variable 1] /] {
        append folder /$part
        if {$cache_problem eq {} && ![sifmod_has [lindex $variable 0]]} {
            set cache_problem [sifmod_problem_of_way $folder]
        }
    }
}
set cache_is_used [expr {$cache_is_known && $cache_problem eq {}}]
set lacks_cache 0
foreach variable $cache(folders) {
    lassign $variable name folder
    if {[sifmod_has $name]} {
        sifmod_set $name $env($name)
        continue
    }
    set lacks_cache 1
    if {$sifmod_unloading || $cache_is_used} {
        sifmod_set $name $root/$folder
    }
}
if {$sifmod_unloading || $cache_is_used} {
    sifmod_set __SIFMOD_CACHE $root
}
if {$sifmod_loading && $cache_is_known && $cache_problem ne {} && $lacks_cache} {
    puts stderr "Warning: $cache_problem, $cache(advice)"
}
