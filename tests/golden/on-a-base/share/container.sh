# How the commands in bin/ start the container of Mine/1. They source this file, which finds out on the
# current node what the container needs, so the commands work with and without the module loaded. They run under `bash -p`,
# which ignores $BASH_ENV and functions of the caller's shell: these cost time, and may print something.
# A variable that the user has exported stays exported when it is set here, and the container inherits it. So what is still set
# when the container starts has a name of our own.
# shellcheck shell=bash disable=SC2034,SC2054 # variables for scripts that source this; commas within binds

sifmod_root=/home/me/Mine/1
sifmod_image=$sifmod_root/demo.sif
sifmod_directory=$sifmod_root/user-software
sifmod_packed=$sifmod_root/user-software.squashfs
sifmod_mark=$sifmod_root/user-software.unpacked
sifmod_layers=$sifmod_root/user-software.layers
# empty if it was not read at the install
sifmod_image_sha256=''
# of packed user software; empty if there can be none
sifmod_packed_bind=/home/me/Mine/1/user-software.squashfs:/user-software:ro,image-src=/
# the copy of packed user software on this node
sifmod_packed_copy=
sifmod_host_uv=

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
    die 126 'the image '"'"''"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
}

# find_node_copies: set sifmod_copies to the folder for this job's copies on this node; empty if there can be none
find_node_copies() {
    local place=${SIFMOD_NODE_LOCAL_DIR:-''}
    sifmod_copies=
    if [[ ${SLURM_JOB_ID-} =~ ^[0-9]{1,10}$ && $place == /* && $place != *[,:\\]* ]]; then
        sifmod_copies=${place%/}/sifmod-copies-$UID-$SLURM_JOB_ID-078bd94fd018
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

# describe_user_software: set the values for packing and carry-over, which are the same files in every installation. The other
# commands don't call it: it would change exported variables of the same names, which the container inherits.
describe_user_software() {
    root=$sifmod_root
    directory=$sifmod_directory
    packed=$sifmod_packed
    unpacked_mark=$sifmod_mark
    module=Mine/1
    previous=$root/user-software.squashfs.previous
    layers=$root/user-software.layers
    flattened=$root/user-software.layers.flattened
    removed=$root/user-software.removed
    most_layers=8
    sums=$root/user-software.sha256
    package_list=$root/user-software.txt
    lock_file=$root/.user-software.lock
    commands=$root/user-bin
    commands_lock=$commands/.lock
    user_commands=true
    # in the container
    user_software=/user-software
    venv=/user-software/venv/demo
    image_python=/usr/bin/python3
    inside=/sifmod
    uv=(/user-software/venv/demo/bin/python -I /runscripts/installers.py uv)
    # options of the runtime for a look at user software
    contained=(--containall --no-home --no-mount cwd,hostfs,bind-paths --pwd /)
    # in a directory that is no longer used
    folder_modes=.sifmod-folder-modes
    # what every new virtual environment has
    seeded=(pip setuptools wheel)
    seeded_commands='python[0-9.]*t?|pip[0-9.]*|easy_install.*|wheel|[Aa]ctivate.*|deactivate.*'
    # no command of a user may hide these
    host_commands=(apptainer bash cat chmod cp csh cut date df diff du eb enroot env find fish flock fusermount fusermount3 getent grep head id ksh ln ls lua mkdir mkfifo mksquashfs mktemp ml module mountpoint mv nproc nsenter od readlink rm rmdir sacct salloc sattach sbatch sbcast scancel scontrol setpriv setsid sh sha256sum sifmod sinfo singularity squashfuse squashfuse_ll squeue srun ssh stat su sudo sync tail tclsh tcsh timeout touch unsquashfs wc xargs zsh)
    # the site's defaults
    installer=pip
    pack_compressor=zstd
    pack_level=5
    pack_block_size=256K
    pack_processors=0
    stripe=()
}

# lend_uv: bind the uv of the host, for a container that has none. A script, such as another module's wrapper, is not the program.
lend_uv() {
    local candidate magic
    while IFS= read -r candidate; do
        if [[ $candidate == /* && $candidate != *[,:\\]* ]] && IFS= read -rd '' -n 4 magic <"$candidate" && [[ $magic == $'\x7fELF' ]]; then
            sifmod_host_uv=$candidate
            return
        fi
    done < <(type -ap uv)
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

# count_layers: set sifmod_layer_count to the number of layers: packed user software below the user's own.
count_layers() {
    sifmod_layer_count=0
    while ((sifmod_layer_count < 8)) && [[ -f $sifmod_layers/$((sifmod_layer_count + 1)).squashfs ]]; do
        ((sifmod_layer_count += 1))
    done
}

# list_layers ROOT: add the layers of an installation to sifmod_layer_files, the newest, which has the highest number, first.
list_layers() {
    local folder=$1/user-software.layers count=0
    while ((count < 8)) && [[ -f $folder/$((count + 1)).squashfs ]]; do ((count += 1)); done
    for (( ; count > 0; count--)); do sifmod_layer_files+=("$folder/$count.squashfs"); done
}

# list_base ROOT MESSAGE: add the user software of an installation that this one builds on, and its layers.
list_base() {
    local folder=$1/user-software file=$1/user-software.squashfs
    if [[ -f $file ]] && ! { [[ -d $folder ]] && { [[ -e $1/user-software.unpacked || ! -r $file ]] || ! is_whole "$file" -; }; }; then
        sifmod_layer_files+=("$file")
    elif [[ -d $folder ]]; then
        sifmod_layer_files+=("$folder")
    else
        printf '%s: %s\n' "${0##*/}" "$2" >&2
    fi
    list_layers "$1"
}

# list_bases: what this module builds on, as long as its manifest says what it did when this module was installed. Sets
# sifmod_base_problem if no container can be started with it.
list_bases() {
    local text
    sifmod_base_problem=
    if [[ -f '/projects/it'"'"'s, [x]/share/sifmod.json' && -r '/projects/it'"'"'s, [x]/share/sifmod.json' ]]; then
        text=$(<'/projects/it'"'"'s, [x]/share/sifmod.json')
        if [[ $text != *'
  "python_version": "3.11",
'* ]]; then
            sifmod_base_problem='/projects/it'"'"'s, [x] (Team/1) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over'
        else
            [[ $text == *'
  "venv": "demo",
'* ]] || printf '%s: %s\n' "${0##*/}" '/projects/it'"'"'s, [x] (Team/1) has another virtual environment now than demo, so its packages are missing. Ask its owner for that one, or install your packages in a new version of the module with carry-over' >&2
            list_base '/projects/it'"'"'s, [x]' '/projects/it'"'"'s, [x] (Team/1) has no user software now, so its packages are missing. Ask its owner'
        fi
    else
        printf '%s: %s\n' "${0##*/}" '/projects/it'"'"'s, [x] (Team/1) is gone or can'"'"'t be read, so its packages are missing. Ask its owner' >&2
    fi
    if [[ -f /apps/Python/3.11/share/sifmod.json && -r /apps/Python/3.11/share/sifmod.json ]]; then
        text=$(</apps/Python/3.11/share/sifmod.json)
        if [[ $text != *'
  "python_version": "3.11",
'* ]]; then
            sifmod_base_problem='/apps/Python/3.11 (Python/3.11) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over'
        else
            [[ $text == *'
  "venv": "demo",
'* ]] || printf '%s: %s\n' "${0##*/}" '/apps/Python/3.11 (Python/3.11) has another virtual environment now than demo, so its packages are missing. Ask its owner for that one, or install your packages in a new version of the module with carry-over' >&2
            list_base /apps/Python/3.11 '/apps/Python/3.11 (Python/3.11) has no user software now, so its packages are missing. Ask its owner'
        fi
    else
        printf '%s: %s\n' "${0##*/}" '/apps/Python/3.11 (Python/3.11) is gone or can'"'"'t be read, so its packages are missing. Ask its owner' >&2
    fi
}

# find_layers: set sifmod_layer_files, the user software below the user's own, that directly below it first, and of those that can be
# used sifmod_layer_binds and sifmod_layer_folders.
find_layers() {
    local number=0 below file bind options source
    sifmod_layer_files=() sifmod_layer_binds=() sifmod_layer_folders=()
    list_layers "$sifmod_root"
    list_bases
    for file in ${sifmod_layer_files[@]+"${sifmod_layer_files[@]}"}; do
        ((number += 1))
        if ((number > 8)); then
            printf '%s: %s %s\n' "${0##*/}" "$file" 'is left out, and its packages are missing: containers have at most 8 layers' >&2
            continue
        fi
        below=/user-layers/$number
        source=${file//,/\\,} options=ro
        if [[ -f $file ]]; then options=ro,image-src=/; fi
        bind=${source//:/\\:}:$below:$options
        if [[ -r $file ]] && { [[ -d $file ]] || is_whole "$file" "$bind"; }; then
            sifmod_layer_binds+=("$bind")
            sifmod_layer_folders+=("$below/venv/"demo)
        else
            printf '%s: %s %s\n' "${0##*/}" "$file" 'is left out, and its packages are missing: it can'"'"'t be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r' >&2
        fi
    done
}

# set_layer_variables: the search paths of programs begin with the folders of the layers.
set_layer_variables() {
    local own
    inject PREPEND_PATH /runscripts:/user-software/venv/demo/bin"$(printf ':%s/bin' "${sifmod_layer_folders[@]}")"''
    # the loaded module has set these
    if [[ -v __SIFMOD_LAYERS_MINE && ${CONTAINERROOT-} == "$sifmod_root" ]]; then return; fi
    own=${SINGULARITYENV_CMAKE_PREFIX_PATH+:${SINGULARITYENV_CMAKE_PREFIX_PATH}}
    inject CMAKE_PREFIX_PATH "$(IFS=: && printf '%s' "${sifmod_layer_folders[*]/%/}")$own"
    own=${SINGULARITYENV_JUPYTER_PATH+:${SINGULARITYENV_JUPYTER_PATH}}
    inject JUPYTER_PATH "$(IFS=: && printf '%s' "${sifmod_layer_folders[*]/%/\/share\/jupyter}")$own"
    own=${SINGULARITYENV_MANPATH+:${SINGULARITYENV_MANPATH}}
    own=${own:-:} # an empty entry stands for the places where man looks by itself
    inject MANPATH "$(IFS=: && printf '%s' "${sifmod_layer_folders[*]/%/\/share\/man}")$own"
    own=${SINGULARITYENV_PKG_CONFIG_PATH+:${SINGULARITYENV_PKG_CONFIG_PATH}}
    inject PKG_CONFIG_PATH "$(IFS=: && printf '%s' "${sifmod_layer_folders[*]/%/\/lib\/pkgconfig}")$own"
}


# inject NAME VALUE: set both spellings, because APPTAINERENV_NAME overrides SINGULARITYENV_NAME.
inject() {
    export "SINGULARITYENV_$1=$2" "APPTAINERENV_$1=$2"
}

inject_unless_set() {
    [[ -v SINGULARITYENV_$1 || -v APPTAINERENV_$1 ]] || inject "$1" "$2"
}

set_environment() {
    unset SINGULARITYENV_CONDA_DEFAULT_ENV APPTAINERENV_CONDA_DEFAULT_ENV
    unset SINGULARITYENV_CONDA_EXE APPTAINERENV_CONDA_EXE
    unset SINGULARITYENV_CONDA_PREFIX APPTAINERENV_CONDA_PREFIX
    unset SINGULARITYENV_CONDA_PROMPT_MODIFIER APPTAINERENV_CONDA_PROMPT_MODIFIER
    unset SINGULARITYENV_CONDA_PYTHON_EXE APPTAINERENV_CONDA_PYTHON_EXE
    unset SINGULARITYENV_CONDA_SHLVL APPTAINERENV_CONDA_SHLVL
    unset SINGULARITYENV_WITH_CONDA APPTAINERENV_WITH_CONDA
    unset SINGULARITYENV__CE_CONDA APPTAINERENV__CE_CONDA
    unset SINGULARITYENV__CE_M APPTAINERENV__CE_M
    inject PIP_CONSTRAINT /runscripts/pip-constraints.txt
    inject PREPEND_PATH /runscripts:/user-software/venv/demo/bin
    inject UV_EXCLUDE /runscripts/pip-constraints.txt
    inject VIRTUAL_ENV /user-software/venv/demo
    inject VIRTUAL_ENV_PROMPT '(demo) '
    inject WITH_CONDA_VENV 'source /runscripts/init-conda-venv'
    inject WITH_VENV 'source /user-software/venv/demo/bin/activate'
    inject_unless_set PYTHONHOME ''
    inject_unless_set PYTHONNOUSERSITE 1
    inject_unless_set UV_LINK_MODE copy
}

set_binds() {
    local binds=(
        /home/me/Mine/1/runscripts:/runscripts:ro
    )
    local beside='' alone
    if packed_is_active && ! [[ -r $sifmod_packed ]]; then
        beside='/home/me/Mine/1/user-software.squashfs can'"'"'t be read, so /home/me/Mine/1/user-software is used. Its owner can allow it with: chmod ug+r /home/me/Mine/1/user-software.squashfs'
        alone='/home/me/Mine/1/user-software.squashfs can'"'"'t be read, and your packages are in it. Its owner can allow it with: chmod ug+r /home/me/Mine/1/user-software.squashfs'
    elif [[ -n $sifmod_packed_copy ]]; then
        binds+=("$sifmod_packed_copy${sifmod_packed_bind#"$sifmod_packed"}")
    elif packed_is_active && ! packed_is_whole; then
        beside='/home/me/Mine/1/user-software.squashfs is damaged, so /home/me/Mine/1/user-software is used. Pack it again with: rm /home/me/Mine/1/user-software.squashfs; make-squashfs'
        alone='/home/me/Mine/1/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or begin anew with: rm /home/me/Mine/1/user-software.squashfs; eb --rebuild'
    elif packed_is_active; then
        binds+=("$sifmod_packed_bind")
        if [[ ${SLURM_PROCID:-0} == 0 && ,${SINGULARITY_BINDPATH-}, == *,/home/me/Mine/1/user-software:/user-software,* ]]; then
            printf '%s: %s\n' "${0##*/}" 'this shell loaded Mine/1 before its user software was packed, so singularity here still uses the old directory. Run: module load Mine/1' >&2
        fi
    elif [[ -d $sifmod_directory ]]; then
        binds+=(/home/me/Mine/1/user-software:/user-software)
    else
        [[ ! -L $sifmod_directory ]] || die 126 "the user software is missing: '$sifmod_directory' is a link to '$(readlink -- "$sifmod_directory")', which does not exist."
        die 126 'the user software is missing: neither /home/me/Mine/1/user-software nor /home/me/Mine/1/user-software.squashfs exists. Make it again, without your packages, with: eb --rebuild'
    fi
    if [[ -n $beside ]]; then
        [[ -d $sifmod_directory ]] || die 126 "$alone"
        printf '%s: %s\n' "${0##*/}" "$beside" >&2
        binds+=(/home/me/Mine/1/user-software:/user-software)
    fi
    binds+=(${sifmod_layer_binds[@]+"${sifmod_layer_binds[@]}"})
    if [[ -n $sifmod_host_uv ]]; then binds+=("$sifmod_host_uv:/sifmod/uv:ro"); fi
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
        source /home/me/Mine/1/share/node-copies.sh
        use_node_copies
    fi
    set_environment
    find_layers
    [[ -z $sifmod_base_problem ]] || die 126 "$sifmod_base_problem"
    if ((${#sifmod_layer_folders[@]})); then set_layer_variables; fi
    set_binds
    check_working_directory
    local sifmod_options=()
    if [[ -n ${SIFMOD_RUNTIME_OPTIONS-} ]]; then
        read -ra sifmod_options <<<"$SIFMOD_RUNTIME_OPTIONS"
    fi
    if [[ ${SIFMOD_SHARE_CONTAINER:-false} == @(true|1) ]]; then
        sifmod_shareable='_BIND _BINDPATH _MOUNT _NO_HOME _NO_MOUNT _UNDERLAY _UNSQUASH _USERNS _CACHEDIR _CONFIGDIR _LOCALCACHEDIR _PULLFOLDER _TMPDIR _DOCKER_PASSWORD _DOCKER_USERNAME _DISABLE_CACHE _MESSAGELEVEL _NOCOLOR _ROCM _NV'
        source /home/me/Mine/1/share/share-container.sh
        share_container exec "$@"
    fi
    exec "$sifmod_runtime" exec ${sifmod_options[@]+"${sifmod_options[@]}"} "$sifmod_image" "$@"
}

# launch_user_command NAME [ARGUMENT...]: replace this process with a command that users installed.
launch_user_command() {
    if ! in_container; then launch "$@"; fi # found along the search path
    if ! in_container && ! packed_is_active && ! [[ -e $sifmod_directory/venv/demo/bin/$1 ]]; then
        die 127 'the user software of Mine/1 no longer has this command; run: refresh-commands'
    fi
    launch /user-software/venv/demo/bin/"$1" "${@:2}"
}
