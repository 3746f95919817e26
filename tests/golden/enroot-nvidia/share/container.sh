# How the commands in bin/ start the container of PyTorch/24.03-ngc. They source this file, which finds out on the
# current node what the container needs, so the commands work with and without the module loaded. They run under `bash -p`,
# which ignores $BASH_ENV and functions of the caller's shell: these cost time, and may print something.
# A variable that the user has exported stays exported when it is set here, and the container inherits it. So what is still set
# when the container starts has a name of our own.
# shellcheck shell=bash disable=SC2034,SC2054 # variables for scripts that source this; commas within binds

sifmod_root=/apps/PyTorch/24.03-ngc
sifmod_image=$sifmod_root/pytorch.sif
sifmod_directory=$sifmod_root/user-software
sifmod_packed=$sifmod_root/user-software.squashfs
sifmod_mark=$sifmod_root/user-software.unpacked
# empty if it was not read at the install
sifmod_image_sha256=''
# of packed user software; empty if there can be none
sifmod_packed_bind=''
# the copy of packed user software on this node
sifmod_packed_copy=

# die STATUS MESSAGE
die() {
    printf '%s: %s\n' "${0##*/}" "$2" >&2
    exit "$1"
}

in_container() {
    [[ -d /.singularity.d ]]
}

find_image() {
    if [[ -f $sifmod_image ]]; then return; fi
    die 126 'the image '"'"'/apps/PyTorch/24.03-ngc/pytorch.sif'"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
}

# find_node_copies: set sifmod_copies to the folder for this job's copies on this node; empty if there can be none
find_node_copies() {
    local place=${SIFMOD_NODE_LOCAL_DIR:-''}
    sifmod_copies=
    if [[ ${SLURM_JOB_ID-} =~ ^[0-9]{1,10}$ && $place == /* && $place != *[,:\\]* ]]; then
        sifmod_copies=${place%/}/sifmod-copies-$UID-$SLURM_JOB_ID-c0e326916b04
    fi
}

find_runtime() {
    local runtimes=(singularity apptainer)
    for sifmod_runtime in "${runtimes[@]}"; do
        if command -v "$sifmod_runtime" >/dev/null; then
            return
        fi
    done
    die 127 'no container runtime on this node: looked for singularity and apptainer on PATH. Load its module, use a node that has one, or set '"'"'runtime'"'"' in the site file'
}

packed_is_active() {
    [[ -f $sifmod_packed ]] && ! [[ -d $sifmod_directory && -e $sifmod_mark ]]
}

# packed_is_whole: whether a readable packed file is as long as its superblock says. Reading the length takes two more
# processes; it is skipped if the loaded module has bound the file, because the module checked it.
packed_is_whole() {
    local magic length
    IFS= read -rd '' -n 4 magic <"$sifmod_packed" && [[ $magic == hsqs ]] || return
    [[ ,${SINGULARITY_BINDPATH-}, != *,"$sifmod_packed_bind",* ]] || return 0
    read -r length < <(od -An -t u8 -j 40 -N 8 --endian=little -- "$sifmod_packed") &&
        ((length >= 96 && length <= $(stat -Lc %s -- "$sifmod_packed")))
}

# inject NAME VALUE: set both spellings, because APPTAINERENV_NAME overrides SINGULARITYENV_NAME.
inject() {
    export "SINGULARITYENV_$1=$2" "APPTAINERENV_$1=$2"
}

inject_unless_set() {
    [[ -v SINGULARITYENV_$1 || -v APPTAINERENV_$1 ]] || inject "$1" "$2"
}

export_unless_set() {
    [[ -v $1 ]] || export "$1=$2"
}

set_environment() {
    unset SINGULARITYENV_CONDA_DEFAULT_ENV APPTAINERENV_CONDA_DEFAULT_ENV
    unset SINGULARITYENV_CONDA_EXE APPTAINERENV_CONDA_EXE
    unset SINGULARITYENV_CONDA_PREFIX APPTAINERENV_CONDA_PREFIX
    unset SINGULARITYENV_CONDA_PROMPT_MODIFIER APPTAINERENV_CONDA_PROMPT_MODIFIER
    unset SINGULARITYENV_CONDA_PYTHON_EXE APPTAINERENV_CONDA_PYTHON_EXE
    unset SINGULARITYENV_CONDA_SHLVL APPTAINERENV_CONDA_SHLVL
    unset SINGULARITYENV_UV_EXCLUDE APPTAINERENV_UV_EXCLUDE
    unset SINGULARITYENV_VIRTUAL_ENV APPTAINERENV_VIRTUAL_ENV
    unset SINGULARITYENV_VIRTUAL_ENV_PROMPT APPTAINERENV_VIRTUAL_ENV_PROMPT
    unset SINGULARITYENV_WITH_CONDA APPTAINERENV_WITH_CONDA
    unset SINGULARITYENV_WITH_VENV APPTAINERENV_WITH_VENV
    unset SINGULARITYENV__CE_CONDA APPTAINERENV__CE_CONDA
    unset SINGULARITYENV__CE_M APPTAINERENV__CE_M
    inject PIP_CONSTRAINT /runscripts/pip-constraints.txt
    inject PREPEND_PATH /runscripts
    inject WITH_CONDA_VENV 'source /runscripts/init-conda-venv'
    inject_unless_set LD_PRELOAD /opt/lib/x.so
    inject_unless_set PREPEND_LD_LIBRARY_PATH /.singularity.d/libs
    inject_unless_set PYTHONHOME ''
    inject_unless_set PYTHONNOUSERSITE 1
    # The loaded module has set these, and the user may have changed or unset some since.
    if [[ ${CONTAINERROOT-} == "$sifmod_root" ]]; then return; fi
    export_unless_set OMP_NUM_THREADS 4
}

set_binds() {
    local binds=(
        /apps/PyTorch/24.03-ngc/runscripts:/runscripts:ro
    )
    if [[ -e /scratch ]]; then binds+=(/scratch); fi
    binds+=(${sifmod_feature_binds[@]+"${sifmod_feature_binds[@]}"})
    # With a module loaded, BINDPATH is the module's list and what the user has added to it since, and SIFMOD_USER_BINDPATH is
    # what the user had set before.
    local users added loaded previous=''
    if [[ -z ${__SIFMOD_CONTAINER-} ]]; then
        users=${APPTAINER_BINDPATH-${SINGULARITY_BINDPATH-}}
    else
        users=${SIFMOD_USER_BINDPATH-}
        for added in "${SINGULARITY_BINDPATH-}" "${APPTAINER_BINDPATH-}"; do
            loaded=${__SIFMOD_BINDPATH-$added}
            if [[ -n $loaded ]]; then # empty for the module of a site without bind paths
                added=${added/",$loaded"/}
                added=${added/"$loaded,"/}
                added=${added/"$loaded"/}
            fi
            if [[ -n $added && $added != "$previous" ]]; then users+=${users:+,}$added; fi
            previous=$added
        done
    fi
    local IFS=,
    export SINGULARITY_BINDPATH="${binds[*]}${users:+,$users}"
    export APPTAINER_BINDPATH=$SINGULARITY_BINDPATH
}

# The runtime mounts the working directory in the container, except for these (Apptainer, addCwdMount).
check_working_directory() {
    case $PWD in
    /bin | /etc | /lib | /lib64 | /mnt | /opt | /sbin | /usr | /var)
        local bound=,$SINGULARITY_BINDPATH,${SINGULARITY_BIND-},${APPTAINER_BIND-},
        local advice="To see the host's, change to a directory below it, or bind it: SINGULARITY_BIND=$PWD"
        if [[ $bound != *,"$PWD"[,:]* ]]; then
            printf '%s: in the container %s is the directory of the image. %s\n' "${0##*/}" "$PWD" "$advice" >&2
        fi
        ;;
    esac
}

# is_host PATTERN...: whether one of the patterns matches the name of this node: its own, short or in full, or Slurm's for it. The
# variable HOSTNAME of a job is that of the login node.
is_host() {
    local pattern name=
    IFS= read -r name </proc/sys/kernel/hostname || :
    for pattern in "$@"; do
        # shellcheck disable=SC2053 # it is a pattern
        if [[ $name == $pattern || ${name%%.*} == $pattern || ( ${SLURMD_NODENAME-} && $SLURMD_NODENAME == $pattern ) ]]; then return 0; fi
    done
    return 1
}

# nearest NAME KNOWN...: set near to the known name with the fewest differences, if these are at most half of its letters, rounded up.
nearest() {
    local known i j diagonal above best=99
    local -a row
    near=''
    for known in "${@:2}"; do
        for ((j = 0; j <= ${#known}; j++)); do row[j]=$j; done
        for ((i = 1; i <= ${#1}; i++)); do
            diagonal=${row[0]} row[0]=$i
            for ((j = 1; j <= ${#known}; j++)); do
                above=${row[j]}
                if [[ ${1:i-1:1} != "${known:j-1:1}" ]]; then ((diagonal += 1)); fi
                row[j]=$((above < row[j - 1] ? above + 1 : row[j - 1] + 1))
                if ((diagonal < row[j])); then row[j]=$diagonal; fi
                diagonal=$above
            done
        done
        if ((row[${#known}] < best && 2 * row[${#known}] <= ${#known} + 1)); then best=${row[${#known}]} near=$known; fi
    done
}

# choose_features: set chosen to the features in use, with a comma around each: those of the module, plus and minus those in
# SIFMOD_FEATURES. Without this variable, those that were chosen when the module was loaded.
choose_features() {
    local -a known=(ib) changes
    local change name near
    chosen=,ib,
    if [[ -z ${SIFMOD_FEATURES+x} && ${CONTAINERROOT-} == "$sifmod_root" && ${__SIFMOD_FEATURES+x} ]]; then
        chosen=,${__SIFMOD_FEATURES%%:*},
        return
    fi
    IFS=$', \t\n' read -rd '' -a changes <<<"${SIFMOD_FEATURES-}" || :
    for change in ${changes[@]+"${changes[@]}"}; do
        name=${change#-}
        if [[ -z $change ]]; then continue; fi
        if [[ " ${known[*]} " != *" $name "* ]]; then
            name=${name//[^[:alnum:]_-]/'?'}
            nearest "${name::40}" "${known[@]}"
            if [[ ${SLURM_PROCID:-0} == 0 ]]; then
                printf '%s: SIFMOD_FEATURES: there is no feature %s%s: use %s\n' "${0##*/}" "'${name::40}'" "${near:+ (perhaps you meant '$near')}" ib >&2
            fi
            continue
        fi
        chosen=${chosen/",$name,"/,}
        if [[ $change == "$name" ]]; then chosen+=$name,; fi
    done
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
    for bind in ${sifmod_feature_binds[@]+"${sifmod_feature_binds[@]}"}; do
        if [[ $bind == "$1" ]]; then return 0; fi
    done
    sifmod_feature_binds+=("$1")
}

# feature_values NAMES: set plain and twins to the variables with these features, whose names have a comma around each; only those
# of the variables that features change.
feature_values() {
    local library_path=
    plain=() twins=()
    if [[ $1 == *,ib,* ]]; then
        plain[NCCL_SOCKET_IFNAME]=ib0
        twins[ENV_PYTHONPATH]=/x
    fi
    if [[ -n $library_path ]]; then twins[ENV_LD_LIBRARY_PATH]=${library_path#:}'${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}'; fi
}

# use_features: find the bind paths and set the variables of the features that apply on this node. The loaded module has done so
# on its node: what it has set there is changed, and what the user has set since stays.
use_features() {
    local chosen applied=, name was one other
    local -A plain=() twins=() plain_before=() twins_before=()
    choose_features
    if [[ $chosen == *,ib,* ]]; then
        applied+=ib,
    fi
    sifmod_feature_binds=()
    if [[ -n ${__SIFMOD_FEATURES+x} ]]; then
        feature_values ",${__SIFMOD_FEATURES#*:},"
        for name in "${!plain[@]}"; do plain_before[$name]=${plain[$name]}; done
        for name in "${!twins[@]}"; do twins_before[$name]=${twins[$name]}; done
    fi
    feature_values "$applied"
    for name in NCCL_SOCKET_IFNAME; do
        if [[ ${!name+x}${!name-} != "${plain_before[$name]+x}${plain_before[$name]-}" ]]; then
            continue
        elif [[ -n ${plain[$name]+x} ]]; then
            export "$name=${plain[$name]}"
        else
            unset "$name"
        fi
    done
    for name in ENV_PYTHONPATH; do
        was=${twins_before[$name]+x}${twins_before[$name]-}
        one=SINGULARITY$name other=APPTAINER$name
        if [[ ${!one+x}${!one-} != "$was" || ${!other+x}${!other-} != "$was" ]]; then
            continue
        elif [[ -n ${twins[$name]+x} ]]; then
            export "$one=${twins[$name]}" "$other=${twins[$name]}"
        else
            unset "$one" "$other"
        fi
    done
}

# is_private FOLDER: whether it is a folder of the user's to write to. It is made if it is missing.
is_private() {
    if [[ ! -d $1 ]]; then (umask 077 && mkdir -p -- "$1") 2>/dev/null || return; fi
    [[ -O $1 && -w $1 && -x $1 ]]
}

# use_caches: point variables at folders below the site's root for caches, which is resolved on the node where this runs. What the
# user, the image or another setting has set is kept; what the loaded module has set is not, because it was resolved elsewhere. If
# the root can't be used, programs use their defaults. Others could put code into a cache, so the folders must be the user's.
use_caches() {
    local variables=(HF_HOME)
    local folders=(hf)
    local loaded=${__SIFMOD_CACHE-} unclean='//|/\.\.?/|[[:cntrl:]]' problem='' root index variable
    for index in "${!variables[@]}"; do
        variable=${variables[index]}
        if [[ -n $loaded && ${!variable-} == "$loaded/${folders[index]}" ]]; then
            unset "$variable"
        elif [[ -v $variable || -v SINGULARITYENV_$variable || -v APPTAINERENV_$variable ]]; then
            unset "variables[index]"
        fi
    done
    if ((${#variables[@]} == 0)); then return 0; fi
    root=/scratch/"${USER-}"
    if [[ -z ${USER-} ]]; then problem='USER is not set'; fi
    if [[ -n $problem ]]; then
        :
    elif [[ $root != /* || $root/ =~ $unclean ]]; then
        problem='its path is not absolute here, or has '"'"'//'"'"', '"'"'.'"'"' or '"'"'..'"'"' in it'
    elif ! is_private "$root"; then
        problem="'$root' "'can'"'"'t be made or written to, or is not yours'
    fi
    for index in "${!variables[@]}"; do
        if [[ -z $problem ]] && ! is_private "$root/${folders[index]}"; then
            problem="'$root/${folders[index]}' "'can'"'"'t be made or written to, or is not yours'
        fi
    done
    if [[ -n $problem ]]; then
        [[ ${SLURM_LOCALID:-0} != 0 ]] ||
            printf '%s: %s, so caches are in their default places. The site has them in %s\n' "${0##*/}" "$problem" '/scratch/${USER}' >&2
        return 0
    fi
    for index in "${!variables[@]}"; do
        export "${variables[index]}=$root/${folders[index]}"
    done
}

# launch COMMAND [ARGUMENT...]: replace this process with the command in the container.
launch() {
    if in_container; then
        command -v -- "$1" >/dev/null || die 127 "you are inside another container, which has no '$1': exit it first."
        exec "$@"
    fi
    find_runtime
    find_image
    find_node_copies
    if [[ -n $sifmod_copies && -e $sifmod_copies ]]; then
        source /apps/PyTorch/24.03-ngc/share/node-copies.sh
        use_node_copies
    fi
    set_environment
    use_features
    set_binds
    check_working_directory
    use_caches
    if [[ -e /dev/nvidiactl ]]; then export SINGULARITY_NV=1 APPTAINER_NV=1; fi
    local sifmod_options=()
    if [[ -n ${SIFMOD_RUNTIME_OPTIONS-} ]]; then
        read -ra sifmod_options <<<"$SIFMOD_RUNTIME_OPTIONS"
    fi
    if [[ ${SIFMOD_SHARE_CONTAINER:-false} == @(true|1) ]]; then
        sifmod_shareable='_BIND _BINDPATH _MOUNT _NO_HOME _NO_MOUNT _UNDERLAY _UNSQUASH _USERNS _CACHEDIR _CONFIGDIR _LOCALCACHEDIR _PULLFOLDER _TMPDIR _DOCKER_PASSWORD _DOCKER_USERNAME _DISABLE_CACHE _MESSAGELEVEL _NOCOLOR _ROCM _NV'
        source /apps/PyTorch/24.03-ngc/share/share-container.sh
        share_container exec "$@"
    fi
    exec "$sifmod_runtime" exec ${sifmod_options[@]+"${sifmod_options[@]}"} "$sifmod_image" "$@"
}
