# Paths of the host that a container may lack: container.sh sources this at each start.
# shellcheck shell=bash disable=SC2034,SC2154 # those of values.sh, container.sh and the caller

# look_at_paths WORD...: start where the container can, bind the folder for temporary files, and name a path of the command that it lacks
look_at_paths() {
    local OLDPWD link=$PWD working=/tmp name bind path target binds=$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-} # the user's OLDPWD stays
    IFS=, read -ra binds <<<"${binds//\\[,:]/}"
    binds=("${binds[@]#*:}")
    binds=("${binds[@]%%:*}")
    # The runtime mounts the working directory under the name in PWD. Where the container has a link in this name, which leads to nothing, the
    # program would start in the home (apptainer issue 2754). Some links lead to what is bound, with the folders around it.
    until [[ $link != /*/* ]] || { [[ -L $link ]] && is_bound "${link%/*}"; }; do link=${link%/*}; done
    if [[ $link == /*/* ]]; then
        if cd -P . && is_bound "$PWD" && [[ $path != "$bind" ]]; then cd -- "$OLDPWD" || return; fi
    fi
    if [[ $PWD != /*/* ]]; then
        more_values
        if [[ ${sifmod_system_folders[$PWD]-} == image ]] && ! is_bound "$PWD"; then
            advise BIND "$PWD" "in the container $PWD is the directory of the image. To see the host's, change to a directory below it, or bind it:"
        fi
    fi
    working=$PWD binds+=("$PWD")
    for name in TMPDIR TMP TEMP TEMPDIR JUPYTER_{RUNTIME,DATA}_DIR XDG_{DATA_HOME,RUNTIME_DIR}; do bind_own "$name"; done
    if [[ ${SLURM_PROCID:-0} == 0 ]]; then name_unseen "$@"; fi
}

# is_bound PATH: whether the runtime mounts it by itself, or a bind path contains it; sets bind, and path to the folder that is bound as this
is_bound() {
    path='' bind=''
    case $1/ in "$working"/* | /tmp/* | /var/tmp/* | /dev/* | /proc/* | /sys/*) return ;; esac
    if find_home && [[ $1/ == "${sifmod_home:-/tmp}"/* ]]; then return; fi
    for bind in "${binds[@]}" "$sifmod_home"; do
        path=$1
        until [[ -z $path || $path == "$bind" || $path -ef $bind ]]; do path=${path%/*}; done
        if [[ $path ]]; then return; fi
    done
    return 1
}

# is_seen FOLDER [FILE]: whether the container has a folder, or a file in it, and what the folder's links lead to; sets target to that
is_seen() {
    target=$1
    is_bound "$1${2-}" || return
    cd -P -- "$1" 2>/dev/null || return 0
    target=$PWD
    cd -- "$working" || exit 126
    is_bound "$target${2-}"
}

# bind_own NAME: bind the folder in this variable: for temporary files, without which Python would write to /tmp in silence and compilers would fail, or
# for the connection files of Jupyter. What another user could replace, or no runtime can mount, is left out.
bind_own() {
    local folder=${!1-}
    if [[ $folder != /* || ! -d $folder || " ${SIFMOD_RUNTIME_OPTIONS-}" == *" --contain"* ]] || is_seen "$folder"; then return 0; fi
    if [[ $target == "$folder" && -O $folder && ! -L ${folder%/} && $folder != *[!A-Za-z0-9/._+@=-]* ]] &&
        [[ $1 != XDG_RUNTIME_DIR || $(stat -c %a -- "$folder") == 700 ]]; then
        SINGULARITY_BINDPATH+=,$folder APPTAINER_BINDPATH=$SINGULARITY_BINDPATH binds+=("$folder")
    elif [[ $1 == T* && ${SLURM_PROCID:-0} == 0 ]]; then
        warn "$1, '$folder', is not in the container, where programs use /tmp. To have it there, name a folder of yours that is no link, with letters and digits only."
        binds+=("$folder" "$target") # once for several variables
    fi
}

# name_unseen WORD...: name the first absolute path that this host has, and whose folder, with its links resolved, no bind path contains; or HOME
name_unseen() {
    local word folder file text images='^/(bin|boot|etc|lib|lib32|lib64|opt|root|run|sbin|usr|var)/' # may be those of the image
    if name_home "$PWD" || name_home "${TMPDIR-}"; then return; fi
    for word; do
        if [[ ${#word} -lt 4096 && $word == -*=/* ]]; then word=/${word#*=/}; fi
        if [[ ${#word} -gt 4095 || $word != /*/* || $word =~ $images || ! -e $word ]]; then continue; fi
        if name_home "$word"; then return; fi
        folder=$word file='' text='exists on this host, but no bind path of the container contains it.'
        if [[ ! -d $word ]]; then folder=${word%/*} file=/${word##*/}; fi
        if is_seen "$folder" "$file" || [[ $target/ =~ $images ]]; then continue; fi
        if [[ $target != "$folder" ]]; then text="leads through a link to '$target$file' on this host, and no bind path of the container contains that."; fi
        advise BIND "$target" "'$word' $text To see it there:"
        return
    done
}
