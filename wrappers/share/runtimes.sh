# The choice between runtimes, and what the scripts of those share that start no SIFs: lists of bind paths, which these do not know, and
# GPUs. container.sh sources this if the module has an image for them.
# shellcheck shell=bash disable=SC2034,SC2154 # variables for scripts that source this; those of values.sh

# choose_runtime: take the first of the site's runtimes, or of those in SIFMOD_RUNTIMES, that is on this node
choose_runtime() {
    local names name known looked_for=''
    IFS=, read -ra names <<<"${SIFMOD_RUNTIMES:-$sifmod_runtimes}"
    for name in "${names[@]}"; do
        if [[ -z $name ]]; then continue; fi
        known=''
        set -- "${sifmod_known_runtimes[@]}"
        while (($#)); do
            if [[ $1 == "$name" ]]; then
                known=yes sifmod_runtime=$2 sifmod_runtime_script=$3
                if command -v "$sifmod_runtime" >/dev/null; then return; fi
                looked_for+="${looked_for:+ and }$sifmod_runtime"
            fi
            shift 3
        done
        [[ -n $known ]] || die 2 "SIFMOD_RUNTIMES is '$SIFMOD_RUNTIMES', and '$name' is not a runtime: $sifmod_use_runtimes."
    done
    die 127 "no container runtime on this node: looked for ${looked_for:-nothing} on PATH. Load its module, use a node that has one, or name another in SIFMOD_RUNTIMES."
}

# ask_for_gpus: where there are some, export what makes a runtime bring the GPUs and the libraries of the host's driver into the container,
# unless the user has set it
ask_for_gpus() {
    local row name
    if [[ ! -e $sifmod_gpu_device ]]; then return 0; fi
    for row in "${sifmod_brought_by[@]}"; do
        name=${row%%=*}
        if [[ -z ${!name-} ]]; then export "${row?}"; fi
    done
}

# can_mount NAME PATH...: whether a runtime, or a plugin of Slurm, can mount these; if not, sifmod_refusal is the beginning of a sentence
can_mount() {
    local path
    for path in "${@:2}"; do
        if [[ $path == *[${sifmod_unmountable[$1]}]* ]]; then
            sifmod_refusal="$1 can't mount '$path', because of ${sifmod_unmountable_words[$1]} in it: rename it,"
            return 1
        fi
    done
}

# mount_binds NAME LIST: call NAME_mount SOURCE DESTINATION FLAG for each bind path of a list; the flag is ro, rw or empty. For a bind path
# of what is in a packed file, NAME_mount_file FILE sets `mounted` to a folder with its contents, and may change `flag`.
mount_binds() {
    local i source option flag mounted
    local -a options
    read_binds "$2"
    for i in "${!sifmod_bind_sources[@]}"; do
        source=${sifmod_bind_sources[i]} flag=''
        IFS=, read -ra options <<<"${sifmod_bind_options[i]}"
        for option in ${options[@]+"${options[@]}"}; do
            case $option in
            ro | rw) flag=$option ;;
            image-src=*)
                "$1_mount_file" "$source"
                source=$mounted${option#image-src=}
                source=${source%/}
                ;;
            esac
        done
        "$1_mount" "$source" "${sifmod_bind_destinations[i]}" "$flag"
    done
}

# read_binds LIST: set sifmod_bind_sources, sifmod_bind_destinations and sifmod_bind_options to the bind paths of a list as Apptainer reads it: a backslash
# before a comma or a colon makes it part of a path, and what does not begin with a slash is one more option of the bind path before.
read_binds() {
    local LC_ALL=C rest=$1, field count=0 # bytes: names need not be text
    local -a fields=()
    sifmod_bind_sources=() sifmod_bind_destinations=() sifmod_bind_options=()
    while [[ $rest =~ ^((\\[,:]|[^,:])*)([,:]) ]]; do
        rest=${rest:${#BASH_REMATCH[0]}}
        field=${BASH_REMATCH[1]//\\,/,}
        fields+=("${field//\\:/:}")
        if [[ ${BASH_REMATCH[3]} == : ]]; then continue; fi
        if [[ ${fields[0]} == /* ]]; then
            sifmod_bind_sources[count]=${fields[0]}
            sifmod_bind_destinations[count]=${fields[1]:-${fields[0]}}
            sifmod_bind_options[count]=${fields[2]-}
            count=$((count + 1))
        elif [[ -n ${fields[0]} ]] && ((count)); then
            sifmod_bind_options[count - 1]+=,${fields[0]}
        fi
        fields=()
    done
}
