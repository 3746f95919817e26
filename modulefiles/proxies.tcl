
# A proxy of the user's, in either spelling, comes before the site's.
foreach row $v(proxies) {
    lassign $row name other value
    foreach users [list $other $name SINGULARITYENV_$name APPTAINERENV_$name] {
        if {[sifmod_has $users]} {
            set value $env($users)
        }
    }
    sifmod_set_twins ENV_$name $value
}
