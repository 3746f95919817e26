
# The same image for runtimes that start no SIFs, if it is there. If it is not, a value of the user's stays, and is pushed: unload pops it.
foreach name [list SQSH SQSH$v(env_name)] {
    if {[file isfile $v(squashfs)]} {
        sifmod_set $name $v(squashfs)
    } elseif {[sifmod_has $name]} {
        sifmod_set $name $env($name)
    }
}
