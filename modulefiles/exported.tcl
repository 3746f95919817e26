
# The other settings. The container inherits them, so what the user exports later counts.
foreach variable $v(exported) { sifmod_set {*}$variable }
