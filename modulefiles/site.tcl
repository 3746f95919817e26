
# The settings of the site, for any image.
proc ModulesHelp {} {
    foreach line $::v(help) {
        puts stderr $line
    }
}
foreach line $v(whatis) {
    module-whatis $line
}
