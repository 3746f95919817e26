
# Uses sifmod_expand (expand).
foreach variable $v(expanding) {
    sifmod_set [lindex $variable 0] [sifmod_expand [lindex $variable 1] $v(expanded)]
}
