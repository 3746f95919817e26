# Paths of the host that a container may lack. container.sh sources this for the few starts with such a path.
# shellcheck shell=bash disable=SC2034,SC2154 # those of values.sh and container.sh

# look_at_paths COMMAND [ARGUMENT...]: bind the folder for temporary files, and say what is not there
look_at_paths() {
    if [[ -d ${TMPDIR-} ]] && ! is_seen "$TMPDIR"; then bind_tmpdir; fi
    if [[ ${PWD:-/} != /*/* ]]; then check_working_directory; fi
    if [[ ${SLURM_PROCID:-0} == 0 ]]; then name_unseen "$@"; fi
}

# is_seen PATH: whether the container has this path of the host: a bind path contains it, or the runtime mounts it by itself
is_seen() {
    local list=,$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-}, path=$1 name
    case $1/ in "${HOME:-/tmp}"/* | "$PWD"/* | /tmp/* | /var/tmp/* | /dev/* | /proc/* | /sys/*) return ;; esac
    while [[ $path ]]; do
        name=${path//,/\\,} name=${name//:/\\:}
        if [[ $list == *,"$name",* || $list == *:"$name"[,:]* ]]; then return; fi
        path=${path%/*}
    done
    return 1
}

# bind_tmpdir: bind the folder for temporary files, which a job may have of its own. Without it Python would write to /tmp in silence, and
# compilers would fail. What another user could replace, or no runtime can mount, is left out.
bind_tmpdir() {
    local LC_ALL=C # ranges of letters
    if [[ $TMPDIR == /* && -O $TMPDIR && ! -L ${TMPDIR%/} && $TMPDIR != *[!A-Za-z0-9/._+@=-]* ]]; then
        SINGULARITY_BINDPATH+=,$TMPDIR APPTAINER_BINDPATH=$SINGULARITY_BINDPATH
    elif [[ ${SLURM_PROCID:-0} == 0 ]]; then
        warn "TMPDIR, '$TMPDIR', is not in the container, where programs use /tmp. To have it there, name a folder of yours that is no link, with letters and digits only."
    fi
}

# advise_bind FOLDER: set sifmod_text to what binds it too, with the variable that counts where there are two. What no runtime can bind is
# in a folder above.
advise_bind() {
    local variable=SINGULARITY_BIND folder=$1 known
    while [[ $folder == *[,:\\^[:cntrl:]]* ]]; do folder=${folder%/*}; done
    known=$(type -P apptainer) || true
    if [[ -v APPTAINER_BIND ]] || [[ ! -v SINGULARITY_BIND && $(type -P "$sifmod_runtime") -ef $known ]]; then variable=APPTAINER_BIND; fi
    printf -v sifmod_text 'export %s=%q' "$variable" "${!variable:+${!variable},}${folder:-/}"
}

# name_unseen ARGUMENT...: name the first path in an argument that is there on the host, and below no bind path. Of folders that images
# have too, nobody knows whose is meant.
name_unseen() {
    local path
    for path; do
        path=${path#-*=}
        case $path in
        /bin/* | /boot/* | /etc/* | /lib/* | /lib32/* | /lib64/* | /opt/* | /root/* | /run/* | /sbin/* | /usr/* | /var/*) continue ;;
        /*/*) ;;
        *) continue ;;
        esac
        [[ -e $path ]] || path=${path%/*} # a file to be written
        if [[ ! -e $path ]] || is_seen "$path"; then continue; fi
        if [[ -d $path ]]; then advise_bind "$path"; else advise_bind "${path%/*}"; fi
        warn "'$path' exists on this host, but no bind path of the container contains it. To see it there: $sifmod_text"
        return
    done
}

# check_working_directory: the runtime mounts it in the container, unless it is a folder of the system
check_working_directory() {
    local bound=,$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-},
    more_values
    if [[ ${sifmod_system_folders[${PWD:-/}]-} == image && $bound != *,"$PWD"[,:]* ]]; then
        advise_bind "$PWD"
        warn "in the container $PWD is the directory of the image. To see the host's, change to a directory below it, or bind it: $sifmod_text"
    fi
}
