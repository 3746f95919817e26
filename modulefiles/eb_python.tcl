
# The `eb` of EasyBuild takes the first python3 in PATH, which is this container's now, unless this variable names another.
# EB_PYTHON is the user's, and comes before it.
set eb_python {}
if {[sifmod_has EB_INSTALLPYTHON]} {
    set eb_python $env(EB_INSTALLPYTHON)
} elseif {[info exists env(PATH)]} {
    foreach folder [split $env(PATH) :] {
        if {$eb_python eq {} && $folder ne $v(own_python_in) && [file isfile $folder/python3]} {
            set eb_python $folder/python3
        }
    }
}
if {$eb_python ne {}} {
    sifmod_set EB_INSTALLPYTHON $eb_python
}
