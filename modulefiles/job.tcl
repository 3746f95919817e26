
# A job that was submitted in a container starts with that one's PATH, and its list of what it has bound, in which host paths are missing.
if {$sifmod_loading && [info exists env(SINGULARITY_ENVIRONMENT)] && ![file isdirectory /.singularity.d]
    && [module-info shelltype] eq "sh"} {
    set leave {PATH="$PATH:${USER_PATH:-/usr/bin}"; unset USER_PATH APPTAINER_ENVIRONMENT SINGULARITY_ENVIRONMENT; }
    puts stdout $leave[expr {[info exists env(__SIFMOD_BIND)] ?
        {export APPTAINER_BIND="$__SIFMOD_BIND" SINGULARITY_BIND="$__SIFMOD_BIND";} : {unset APPTAINER_BIND SINGULARITY_BIND;}}]
}

# The job's folders for temporary files that the container would lack: see bind_own of paths.sh, which says what is left out.
foreach name {TMPDIR TMP TEMP TEMPDIR} {
    set temporary [expr {[sifmod_has SLURMD_NODENAME] && [sifmod_has $name] ? $env($name) : {}}]
    set lacks [expr {[regexp {^/[A-Za-z0-9/._+@=-]+$} $temporary] && ![catch {file lstat [string trimright $temporary /] status}]
        && $status(type) eq {directory} && [file owned $temporary]}]
    foreach bind [concat $v(mounted_anyway) $v(binds)] {
        set lacks [expr {$lacks && [string first [lindex [split $bind :] [string match *:* $bind]]/ $temporary/] != 0}]
    }
    if {$lacks} { lappend v(binds) $temporary }
}
