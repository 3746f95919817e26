# Paths of the host that a container may lack. container.sh sources this for the few starts with such a path.
# shellcheck shell=bash disable=SC2034,SC2154 # those of values.sh and container.sh

# look_at_paths COMMAND [ARGUMENT...]: bind the folder for temporary files, start where the container can, and say what is not there
look_at_paths() {
    if [[ -d ${TMPDIR-} ]] && ! is_seen "$TMPDIR"; then bind_tmpdir; fi
    if has_link "${PWD-}"; then leave_links; fi
    if [[ ${PWD:-/} != /*/* ]]; then check_working_directory; fi
    if [[ ${SLURM_PROCID:-0} == 0 ]]; then name_unseen "$@"; fi
}

# is_seen PATH: whether the container has this path of the host: a bind path contains it, or the runtime mounts it by itself
is_seen() {
    [[ $1/ == "${PWD-}"/* ]] || is_bound "$1"
}

# is_bound PATH: the same without what only the working directory contains
is_bound() {
    local list=,$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-}, path=$1 name
    case $1/ in "${HOME:-/tmp}"/* | /tmp/* | /var/tmp/* | /dev/* | /proc/* | /sys/*) return ;; esac
    while [[ $path ]]; do
        name=${path//,/\\,} name=${name//:/\\:}
        if [[ $list == *,"$name",* || $list == *:"$name"[,:]* ]]; then return; fi
        path=${path%/*}
    done
    return 1
}

# is_bound_as PATH: whether the container has a path without links under another name: a bind path or the home leads through a link
is_bound_as() {
    local bind path
    local -a binds
    IFS=, read -ra binds <<<"${HOME:-/tmp},$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-}"
    for bind in "${binds[@]}"; do
        path=$1
        while [[ $path && ($bind != *:* || $bind: == "${bind%%:*}:${bind%%:*}:"*) ]]; do
            if [[ $path -ef ${bind%%:*} ]]; then return; fi
            path=${path%/*}
        done
    done
    return 1
}

# is_of_images PATH: whether it is in a folder that images have too, so that nobody knows whose is meant
is_of_images() {
    case $1 in /bin/* | /boot/* | /etc/* | /lib/* | /lib32/* | /lib64/* | /opt/* | /root/* | /run/* | /sbin/* | /usr/* | /var/*) ;; *) return 1 ;; esac
}

# has_link PATH: whether a part of it is a link that the container has too
has_link() {
    local path=$1
    while [[ $path == /*/* ]]; do
        if [[ -L $path ]] && is_seen "${path%/*}"; then return; fi
        path=${path%/*}
    done
    return 1
}

# leave_links: name the working directory without links. The runtime mounts it under the name in PWD, and where the container has the
# link too, such as one in the home, that leads to nothing: the program would start in the home (apptainer issue 2754).
leave_links() {
    local OLDPWD folder=$PWD # that of the user stays
    cd -P . || return 0
    # the link leads to what is there, with the folders around it
    if ! is_bound "$PWD" && is_bound_as "$PWD"; then cd -- "$folder" || return 0; fi
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
    folder=${!variable:+${!variable},}${folder:-/}
    if [[ $folder == *[!a-zA-Z0-9@%+=:,./_-]* ]]; then folder="'${folder//\'/\'\\\'\'}'"; fi
    sifmod_text="export $variable=$folder"
}

# name_unseen ARGUMENT...: name the first path in an argument that is there on the host, and not in the container: no bind path contains it,
# or that to which a link leads
name_unseen() {
    local path said
    for path; do
        path=${path#-*=}
        case $path in
        /*/*) if is_of_images "$path"; then continue; fi ;;
        '' | /*) continue ;;
        *) path=${PWD-}/$path ;;
        esac
        [[ -e $path ]] || path=${path%/*} # a file to be written
        [[ -e $path ]] || continue
        said="'$path' exists on this host, but no bind path of the container contains it."
        if is_seen "$path"; then
            has_link "$path" || continue
            said="'$path' leads through a link"
            path=$(readlink -f -- "$path") || continue
            said+=" to '$path' on this host, and no bind path of the container contains that."
            if is_seen "$path" || is_of_images "$path" || is_bound_as "$path"; then continue; fi
        fi
        if [[ -d $path ]]; then advise_bind "$path"; else advise_bind "${path%/*}"; fi
        warn "$said To see it there: $sifmod_text"
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
