# How enroot starts the container with what Apptainer would give it: container.sh sources this where
# enroot is the runtime. The grammar of mounts and variables is that of enroot 4.1.2.
# shellcheck shell=bash disable=SC2154 # those of values.sh, container.sh, runtimes.sh and mounts.sh

source "$sifmod_root/share/mounts.sh"
more_values

# enroot_mount SOURCE DESTINATION FLAG: add a mount
enroot_mount() {
    can_mount enroot "$1" "$2" || die 126 "$sifmod_refusal or start Apptainer with SIFMOD_RUNTIMES=apptainer."
    # without options enroot assumes rbind and x-create=auto, with some it does not
    sifmod_enroot+=(-m "$1:$2${3:+:rbind,$3,x-create=auto}")
}

# enroot_mount_file FILE: for mount_binds
enroot_mount_file() {
    mount_squashfs "$1"
    # shellcheck disable=SC2034 # what is mounted can't be written to anyway
    flag=''
}

# enroot_variables: add what the shell exports, which enroot keeps out of containers. It writes a variable as a line of a file, takes
# quotes around its value away and empties BASH_ENV, so with-environment sets those that this would change.
enroot_variables() {
    local sifmod_name sifmod_value sifmod_quoted='' sifmod_quote="'\\''" sifmod_line="'\"\$sifmod_newline\"'"
    while IFS= read -r sifmod_name; do
        case $sifmod_name in
        PATH | LD_LIBRARY_PATH | SHELL | _ | ENROOT_* | SINGULARITY_* | APPTAINER_* | __SIFMOD_QUOTED | sifmod_*) continue ;;
        esac
        sifmod_value=${!sifmod_name}
        if [[ $sifmod_name == BASH_ENV || $sifmod_value == *$'\n'* || $sifmod_value == [\"\']*[\"\']*([[:space:]]) ]]; then
            sifmod_value=${sifmod_value//\'/$sifmod_quote}
            sifmod_quoted+="export $sifmod_name='${sifmod_value//$'\n'/$sifmod_line}';"
        else
            sifmod_enroot+=(-e "$sifmod_name")
        fi
    done < <(compgen -e)
    wait "$!" || :
    if [[ -n $sifmod_quoted ]]; then
        export __SIFMOD_QUOTED=$sifmod_quoted
        sifmod_enroot+=(-e __SIFMOD_QUOTED)
    fi
    # enroot starts commands by this shell, and one that is not of POSIX does not understand how. with-environment sets the user's.
    sifmod_enroot+=(-e SHELL=/bin/sh)
    if [[ -n ${SHELL-} ]]; then sifmod_enroot+=(-e "__SIFMOD_SHELL=$SHELL"); fi
}

# drop_variables: keep what enroot, this script and the container's environment need
drop_variables() {
    local sifmod_name
    while IFS= read -r sifmod_name; do
        case $sifmod_name in
        SINGULARITYENV_* | APPTAINERENV_* | SINGULARITY_BIND* | APPTAINER_BIND* | ENROOT_* | XDG_* | SLURM_JOB_ID | SLURM_STEP_ID) ;;
        PATH | HOME | USER | LOGNAME | TMPDIR | LANG | LC_* | TERM) ;;
        *) export -n "${sifmod_name?}" ;;
        esac
    done < <(compgen -e)
    wait "$!" || :
}

# start_container COMMAND [ARGUMENT...]: replace this process with the command in the container
start_container() {
    local -a sifmod_enroot=()
    local sifmod_folder sifmod_place=$PWD sifmod_folders=(/tmp /var/tmp "${PWD:-/}")
    # sifmod looks into containers with these options, which have a counterpart: the module's bind paths and variables, nothing else
    if [[ ${SIFMOD_RUNTIME_OPTIONS-} == "${sifmod_contained_options[*]}" ]]; then
        sifmod_place=/ sifmod_folders=()
        export "${sifmod_contained_variables[@]}"
        drop_variables
    elif [[ -n ${SIFMOD_RUNTIME_OPTIONS-} ]]; then
        die 2 "SIFMOD_RUNTIME_OPTIONS is '$SIFMOD_RUNTIME_OPTIONS', and enroot has no such options: unset it, or start Apptainer with SIFMOD_RUNTIMES=apptainer."
    fi
    ask_for_gpus
    # Apptainer mounts these by itself, and before others: a mount hides what is mounted below its destination before.
    for sifmod_folder in ${sifmod_folders[@]+"${sifmod_folders[@]}"}; do
        if [[ -z ${sifmod_system_folders[$sifmod_folder]-} && -d $sifmod_folder ]]; then enroot_mount "$sifmod_folder" "$sifmod_folder" ''; fi
    done
    mount_binds enroot "${APPTAINER_BINDPATH-${SINGULARITY_BINDPATH-}},${APPTAINER_BIND-${SINGULARITY_BIND-}}"
    enroot_variables
    # what Apptainer does, unless the user has set these
    export ENROOT_MOUNT_HOME="${ENROOT_MOUNT_HOME-yes}" ENROOT_REMAP_ROOT="${ENROOT_REMAP_ROOT-no}" ENROOT_LOGIN_SHELL="${ENROOT_LOGIN_SHELL-no}"
    if [[ $sifmod_launch == run ]]; then set -- /.singularity.d/runscript "$@"; fi
    exec enroot start "${sifmod_enroot[@]}" "$sifmod_image" /runscripts/with-environment --in "$sifmod_place" "$@"
}

# start_contained BINDS COMMAND [ARGUMENT...]: replace this process with the command in a container that sees only these binds
# and no variables. By a shell, because enroot takes a command with a space in it for a script.
start_contained() {
    local -a sifmod_enroot=(-e SHELL=/bin/sh)
    mount_binds enroot "$1"
    shift
    export "${sifmod_contained_variables[@]}"
    # shellcheck disable=SC2016 # for that shell
    exec enroot start "${sifmod_enroot[@]}" "$sifmod_image" /bin/sh -c 'exec "$@"' sh "$@"
}
