
# The image, and the folders of the installation. Of one that is closed or was moved nothing is used: commands would be the host's.
set script $v(installdir)/share/container.sh
set needed [expr {[file readable $script] ? $v(image) : $script}]
if {$sifmod_loading && ![file readable $needed]} {
    sifmod_fail [expr {$needed eq $script || [file isfile $needed] ? "'$needed' $v(is_closed)" : $v(image_is_gone)}]
}
foreach name [list SIF SIF$v(env_name)] { sifmod_set $name $v(image) }
sifmod_set CONTAINERROOT $v(installdir)
foreach name [list RUNSCRIPTS RUNSCRIPTS$v(env_name)] { sifmod_set $name $v(installdir)/runscripts }
