# Paths of the host that a container may lack: container.sh sources this at each start.
# shellcheck shell=bash disable=SC2034,SC2154 # those of values.sh, container.sh and the caller

# look_at_paths WORD...: start where the container can, bind the folder for temporary files, and name a path of the command that it lacks
look_at_paths() {
    local OLDPWD link=$PWD working=/tmp bind path binds=$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-} # the user's OLDPWD stays
    IFS=, read -ra binds <<<"${binds//\\[,:]/}"
    binds=("${binds[@]#*:}")
    binds=("${binds[@]%%:*}")
    # The runtime mounts the working directory under the name in PWD. Where the container has a link in this name, which leads to nothing, the
    # program would start in the home (apptainer issue 2754). Some links lead to what is bound, with the folders around it.
    until [[ $link != /*/* ]] || { [[ -L $link ]] && is_bound "${link%/*}"; }; do link=${link%/*}; done
    if [[ $link == /*/* ]]; then
        link=$PWD
        if cd -P . && is_bound "$PWD" && [[ $path != "$bind" ]]; then cd -- "$link" || return; fi
    fi
    if [[ $PWD != /*/* ]]; then
        more_values
        if [[ ${sifmod_system_folders[$PWD]-} == image ]] && ! is_bound "$PWD"; then
            advise BIND "$PWD" "in the container $PWD is the directory of the image. To see the host's, change to a directory below it, or bind it:"
        fi
    fi
    working=$PWD binds+=("$PWD")
    # Without a job's folder for temporary files, Python would write to /tmp in silence, and compilers would fail. What another user could replace,
    # or no runtime can mount, is left out.
    if [[ ! -d ${TMPDIR-} ]] || is_bound "$TMPDIR"; then
        :
    elif [[ $TMPDIR == /* && -O $TMPDIR && ! -L ${TMPDIR%/} && $TMPDIR != *[!A-Za-z0-9/._+@=-]* ]]; then
        SINGULARITY_BINDPATH+=,$TMPDIR APPTAINER_BINDPATH=$SINGULARITY_BINDPATH
    elif [[ ${SLURM_PROCID:-0} == 0 ]]; then
        warn "TMPDIR, '$TMPDIR', is not in the container, where programs use /tmp. To have it there, name a folder of yours that is no link, with letters and digits only."
    fi
    if [[ ${SLURM_PROCID:-0} == 0 ]]; then name_unseen "$@"; fi
}

# is_bound PATH: whether the runtime mounts it by itself, or a bind path contains it; sets bind, and path to the folder that is bound as this
is_bound() {
    path='' bind=''
    find_home
    case $1/ in "${sifmod_home:-/tmp}"/* | "$working"/* | /tmp/* | /var/tmp/* | /dev/* | /proc/* | /sys/*) return ;; esac
    for bind in "${binds[@]}" "$sifmod_home"; do
        path=$1
        until [[ -z $path || $path == "$bind" || $path -ef $bind ]]; do path=${path%/*}; done
        if [[ $path ]]; then return; fi
    done
    return 1
}

# name_home PATH: name HOME, if the path is below it and the container has another home
name_home() {
    if [[ -z ${HOME-} || $1/ != "${HOME%/}"/* ]] || { find_home && [[ $HOME -ef $sifmod_home/ ]]; }; then return 1; fi
    advise HOME "$HOME" "HOME is '$HOME', but the home of the container is '$sifmod_home'. To have yours there:"
}

# name_unseen WORD...: name the first absolute path that this host has, and whose folder, with its links resolved, no bind path contains; or HOME
name_unseen() {
    local word folder target text images='^/(bin|boot|etc|lib|lib32|lib64|opt|root|run|sbin|usr|var)/' # may be those of the image
    if name_home "$PWD" || name_home "${TMPDIR-}"; then return; fi
    for word; do
        if ((${#word} > 4095)); then continue; fi # longer than a path can be
        if [[ $word == -*=/* ]]; then word=/${word#*=/}; fi
        if [[ $word != /*/* || $word =~ $images || ! -e $word ]]; then continue; fi
        if name_home "$word"; then return; fi
        folder=$word text='exists on this host, but no bind path of the container contains it.'
        if [[ ! -d $word ]]; then folder=${word%/*}; fi
        target=$folder
        if is_bound "$word" && cd -P -- "$folder" 2>/dev/null; then
            target=$PWD text="leads through a link to '$PWD${word#"$folder"}' on this host, and no bind path of the container contains that."
            cd -- "$working" || exit 126
        fi
        if [[ $target/ =~ $images ]] || is_bound "$target${word#"$folder"}"; then continue; fi
        advise BIND "$target" "'$word' $text To see it there:"
        return
    done
}
