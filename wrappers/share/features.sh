# The features of a site: which of them a container has on this node. container.sh sources this if the site has some. In values that
# have rows the feature comes first; it is empty where a row is for what is so without features.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # tables of the caller; variables of values.sh and container.sh

# is_host PATTERN: whether it matches the name of this node: its own, short or in full, or Slurm's for it. The variable HOSTNAME of a job is
# that of the login node.
is_host() {
    local name=
    IFS= read -r name </proc/sys/kernel/hostname || :
    # shellcheck disable=SC2053 # it is a pattern
    [[ $name == $1 || ${name%%.*} == $1 || ( ${SLURMD_NODENAME-} && $SLURMD_NODENAME == $1 ) ]]
}

# choose_features: set chosen to the features in use, with a comma around each: those of the module, plus and minus those in
# SIFMOD_FEATURES. Without this variable, those that were chosen when the module was loaded.
choose_features() {
    local -a changes
    local change name known
    chosen=,
    for name in "${sifmod_feature_chosen[@]}"; do chosen+=$name,; done
    if [[ -z ${SIFMOD_FEATURES+x} && ${CONTAINERROOT-} == "$sifmod_root" && -n ${!sifmod_feature_record+x} ]]; then
        chosen=,${!sifmod_feature_record%%:*},
        return
    fi
    printf -v known ', %s' "${sifmod_features[@]}"
    IFS=$', \t\n' read -rd '' -a changes <<<"${SIFMOD_FEATURES-}" || :
    for change in "${changes[@]}"; do
        name=${change#-}
        if [[ -z $change ]]; then continue; fi
        if [[ "$known, " != *", $name, "* ]]; then
            name=${name//[^[:alnum:]_-]/'?'}
            if [[ ${SLURM_PROCID:-0} == 0 ]]; then warn "SIFMOD_FEATURES: there is no feature '${name::40}': use ${known#, }"; fi
            continue
        fi
        chosen=${chosen/",$name,"/,}
        if [[ $change == "$name" ]]; then chosen+=$name,; fi
    done
}

# feature_applies FEATURE: whether this node has the paths that a feature needs, and one of its names, and the job one of its partitions.
feature_applies() {
    local feature=$1
    local -A met=([path]=yes)
    set -- "${sifmod_feature_conditions[@]}"
    while (($#)); do
        if [[ $1 == "$feature" ]]; then
            # shellcheck disable=SC2053 # patterns
            case $2 in
            path) [[ -e $3 ]] || return 1 ;;
            host) if is_host "$3"; then met[host]=yes; fi ;;
            partition) if [[ ${SLURM_JOB_PARTITION-} == $3 ]]; then met[partition]=yes; fi ;;
            esac
            met[$2]=${met[$2]:-no}
        fi
        shift 3
    done
    [[ " ${met[*]} " != *' no '* ]]
}

# bind_matches FOLDER OPTIONS PATH...: bind each of these that exists, into a folder of the container if there is one; a pattern
# without a match is its own text. Fails if there is none.
bind_matches() {
    local path destination status=1
    for path in "${@:3}"; do
        if [[ ! -e $path || $path =~ [,:\\^[:cntrl:]]|[[:space:]]$ ]]; then continue; fi
        destination=$path
        if [[ -n $1 ]]; then destination=$1${path##*/}; fi
        if [[ -n $1 || -n $2 ]]; then path+=:$destination; fi
        add_bind "$path${2:+:$2}"
        status=0
    done
    return "$status"
}

add_bind() {
    local bind
    for bind in "${sifmod_feature_binds[@]}"; do
        if [[ $bind == "$1" ]]; then return 0; fi
    done
    sifmod_feature_binds+=("$1")
}

# find_feature_binds: set sifmod_feature_binds to the bind paths of the features that apply. Those of a pattern have no argument for the
# runtime; those that must be there have a message.
find_feature_binds() {
    local IFS='' feature source argument folder options missing
    sifmod_feature_binds=()
    set -- "${sifmod_feature_bind_paths[@]}"
    while (($#)); do
        feature=$1 source=$2 argument=$3 folder=$4 options=$5 missing=$6
        shift 6
        if [[ $applied != *,"$feature",* ]]; then
            :
        elif [[ -z $argument ]]; then
            # shellcheck disable=SC2086 # a pattern, in which a backslash is itself
            bind_matches "$folder" "$options" ${source//\\/\\\\} || [[ -z $missing ]] || die 126 "$missing"
        elif [[ -e $source ]]; then
            add_bind "$argument"
        elif [[ -n $missing ]]; then
            die 126 "$missing"
        fi
    done
}

# change_table TABLE NAMES [FEATURE CHANGE]...: change variables in a table as these features do, whose names have a comma around each
change_table() {
    local -n table=$1
    local names=$2
    shift 2
    while (($#)); do
        if [[ -n $1 && $names != *,"$1",* ]]; then
            :
        elif [[ $2 == *=* ]]; then
            table[${2%%=*}]=${2#*=}
        else
            unset "table[$2]"
        fi
        shift 2
    done
}

# feature_values EXPORTED TWINS NAMES: fill two tables with the values of variables with these features; only those that features change.
feature_values() {
    local names=$3 library_path='' name
    local -n exported_table=$1 twin_table=$2
    change_table "$1" "$names" "${sifmod_feature_exported[@]}"
    for name in "${!exported_table[@]}"; do
        expand_text "${exported_table[$name]}"
        exported_table[$name]=$sifmod_text
    done
    change_table "$2" "$names" "${sifmod_feature_runtime_variables[@]}"
    set -- "${sifmod_feature_library_path[@]}"
    while (($#)); do
        if [[ $names == *,"$1",* ]]; then library_path+=:$2; fi
        shift 2
    done
    if [[ -n $library_path ]]; then twin_table[ENV_LD_LIBRARY_PATH]=${library_path#:}$sifmod_feature_library_tail; fi
}

# settle OLD NEW VARIABLE...: give variables that have all this old value the new one. A value has an x before it; one that is not set is
# empty.
settle() {
    local variable
    for variable in "${@:3}"; do
        if [[ ${!variable+x}${!variable-} != "$1" ]]; then return 0; fi
    done
    for variable in "${@:3}"; do
        if [[ -n $2 ]]; then export "$variable=${2#x}"; else unset "$variable"; fi
    done
}

# use_features: find the bind paths and set the variables of the features that apply on this node. The loaded module has done so
# on its node: what it has set there is changed, and what the user has set since stays.
use_features() {
    local chosen applied=, name
    local -A exported=() twins=() exported_before=() twins_before=()
    choose_features
    for name in "${sifmod_features[@]}"; do
        if [[ $chosen == *,"$name",* ]] && feature_applies "$name"; then applied+=$name,; fi
    done
    set -- "${sifmod_feature_refusals[@]}"
    while (($#)); do
        if [[ $applied == *,"$1",* && $applied == *,"$2",* ]]; then die 126 "$3"; fi
        shift 3
    done
    find_feature_binds
    if [[ -n ${!sifmod_feature_record+x} ]]; then feature_values exported_before twins_before ",${!sifmod_feature_record#*:},"; fi
    feature_values exported twins "$applied"
    set -- "${sifmod_feature_exported[@]}"
    while (($#)) && [[ -z $1 ]]; do
        name=${2%%=*}
        settle "${exported_before[$name]+x}${exported_before[$name]-}" "${exported[$name]+x}${exported[$name]-}" "$name"
        shift 2
    done
    set -- "${sifmod_feature_runtime_variables[@]}"
    while (($#)) && [[ -z $1 ]]; do
        name=${2%%=*}
        settle "${twins_before[$name]+x}${twins_before[$name]-}" "${twins[$name]+x}${twins[$name]-}" "SINGULARITY$name" "APPTAINER$name"
        shift 2
    done
}
