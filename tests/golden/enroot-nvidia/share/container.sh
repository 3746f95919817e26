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
sifmod_layers=$sifmod_root/user-software.layers
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
    if [[ ${sifmod_runtime-} == enroot ]]; then
        sifmod_image=/apps/PyTorch/24.03-ngc/pytorch.sqsh
        [[ -f $sifmod_image ]] || die 126 'the image for enroot, /apps/PyTorch/24.03-ngc/pytorch.sqsh, is gone: reinstall the module with: eb --rebuild'
        return
    fi
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

# find_runtime: set sifmod_runtime to the first of the site's runtimes, or of those in SIFMOD_RUNTIMES, that is on this node
find_runtime() {
    local names name looked_for=''
    IFS=, read -ra names <<<"${SIFMOD_RUNTIMES:-enroot,apptainer}"
    for name in ${names[@]+"${names[@]}"}; do
        case $name in
        enroot) set -- enroot ;;
        apptainer) set -- singularity apptainer ;;
        '') continue ;;
        *) die 2 "SIFMOD_RUNTIMES is '$SIFMOD_RUNTIMES', and '$name' is not a runtime: use apptainer or enroot, or both with a comma between them." ;;
        esac
        for sifmod_runtime in "$@"; do
            if command -v "$sifmod_runtime" >/dev/null; then return; fi
            looked_for+="${looked_for:+ and }$sifmod_runtime"
        done
    done
    die 127 "no container runtime on this node: looked for ${looked_for:-nothing} on PATH. Load its module, use a node that has one, or name another in SIFMOD_RUNTIMES."
}

packed_is_active() {
    [[ -f $sifmod_packed ]] && ! [[ -d $sifmod_directory && -e $sifmod_mark ]]
}

# packed_is_whole: whether the readable packed file can be used.
packed_is_whole() {
    is_whole "$sifmod_packed" "$sifmod_packed_bind"
}

# is_whole FILE BIND: whether a readable packed file is as long as its superblock says. Reading the length takes two more
# processes; it is skipped if the loaded module has bound the file, because the module checked it.
is_whole() {
    local magic length
    IFS= read -rd '' -n 4 magic <"$1" && [[ $magic == hsqs ]] || return
    [[ ,${SINGULARITY_BINDPATH-}, != *,"$2",* ]] || return 0
    read -r length < <(od -An -t u8 -j 40 -N 8 --endian=little -- "$1" 2>/dev/null) &&
        ((length >= 96 && length <= $(stat -Lc %s -- "$1")))
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
    root=/scratch/caches
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
            printf '%s: %s, so caches are in their default places. The site has them in %s\n' "${0##*/}" "$problem" /scratch/caches >&2
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
    set_binds
    check_working_directory
    use_caches
    if [[ -e /dev/nvidiactl ]]; then export SINGULARITY_NV=1 APPTAINER_NV=1; fi
    if [[ $sifmod_runtime == enroot ]]; then
        source /apps/PyTorch/24.03-ngc/share/enroot.sh
        start_enroot "$@"
    fi
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
