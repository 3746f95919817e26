
# One container at a time. When Lmod replaces a member of a family, it loads the new one before it unloads the old one, which
# leaves the old one's values behind. So the old one is unloaded here first. environment-modules refuses the second one.
set member [array get env LMOD_FAMILY_[string toupper $v(family)]]
if {$sifmod_lmod && $sifmod_loading && $member ne {} && [lindex $member 1] ne [file dirname [module-info name]]
    && [array get env LMOD_AUTO_SWAP] ne {LMOD_AUTO_SWAP no}} {
    puts stderr "Replacing the container module [lindex $member 1] with [module-info name]."
    module unload [lindex $member 1]
}
family $v(family)
