
# Uses has_container (container).
# The user's own bind paths come last. __SIFMOD_BINDPATH is what wrappers compare with, to find what the user has added since.
foreach name [expr {$has_container ? {SIFMOD_USER_BINDPATH} : {APPTAINER_BINDPATH SINGULARITY_BINDPATH}}] {
    if {[sifmod_has $name]} {
        if {$env($name) ne {}} {
            lappend v(binds) $env($name)
            sifmod_set SIFMOD_USER_BINDPATH $env($name)
        }
        break
    }
}
sifmod_set_twins _BINDPATH [join $v(binds) ,]
sifmod_set __SIFMOD_BINDPATH [join $v(binds) ,]

# Options of the runtime, and (ENV_) what only the container gets: its activation, and what would hurt programs of the host.
foreach variable $v(runtime_variables) { sifmod_set_twins {*}$variable }
