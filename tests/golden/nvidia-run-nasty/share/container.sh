# How the commands in bin/ start the container of PyTorch-NGC/24.05 it's. They source this file, which finds out on the
# current node what the container needs, so the commands work with and without the module loaded. They run under `bash -p`,
# which ignores $BASH_ENV and functions of the caller's shell: these cost time, and may print something.
# A variable that the user has exported stays exported when it is set here, and the container inherits it. So what is still set
# when the container starts has a name of our own.
# shellcheck shell=bash disable=SC2034,SC2054 # variables for scripts that source this; commas within binds

sifmod_root='/tmp/a b,c'"'"'d$e'
sifmod_image=$sifmod_root/'nasty $image "1".sif'
sifmod_directory=$sifmod_root/user-software
sifmod_packed=$sifmod_root/user-software.squashfs
sifmod_mark=$sifmod_root/user-software.unpacked
sifmod_layers=$sifmod_root/user-software.layers
# empty if it was not read at the install
sifmod_image_sha256=''
# of packed user software; empty if there can be none
sifmod_packed_bind='/tmp/a b\,c'"'"'d$e/user-software.squashfs:/user-software:ro,image-src=/'
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

# is_copy PATH SIZE ID: whether this file has the size of the image and the identifier in its header. Reading all of it would take
# minutes: the install and sifmod verify do. Size 0: any file will do.
is_copy() {
    local id
    if [[ ! -f $1 ]] || (($2 && $(stat -Lc %s -- "$1") != $2)); then return 1; fi
    if (($2 == 0)) || [[ -z $3 ]]; then return 0; fi
    id=$(od -An -v -t x1 -j 48 -N 16 -- "$1")
    [[ ${id//[[:space:]]/} == "$3" ]]
}

find_image() {
    if [[ -f $sifmod_image ]]; then return; fi
    if is_copy '/central "images"/nasty $image "1".sif' 12345678901 0123456789abcdef0123456789abcdef; then
        sifmod_image='/central "images"/nasty $image "1".sif'
        return
    fi
    if is_copy '/cent`ral`/nasty $image "1".sif' 12345678901 0123456789abcdef0123456789abcdef; then
        sifmod_image='/cent`ral`/nasty $image "1".sif'
        return
    fi
    die 126 'the image '"'"'/tmp/a b,c'"'"'d$e/nasty $image "1".sif'"'"' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild'
}

# find_node_copies: set sifmod_copies to the folder for this job's copies on this node; empty if there can be none
find_node_copies() {
    local place=${SIFMOD_NODE_LOCAL_DIR:-''}
    sifmod_copies=
    if [[ ${SLURM_JOB_ID-} =~ ^[0-9]{1,10}$ && $place == /* && $place != *[,:\\]* ]]; then
        sifmod_copies=${place%/}/sifmod-copies-$UID-$SLURM_JOB_ID-6b6c6b3e9eec
    fi
}

find_runtime() {
    local runtimes=('singularity ce')
    for sifmod_runtime in "${runtimes[@]}"; do
        if command -v "$sifmod_runtime" >/dev/null; then
            return
        fi
    done
    die 127 'no container runtime on this node: looked for singularity ce on PATH. Load its module, use a node that has one, or set '"'"'runtime'"'"' in the site file'
}

# describe_user_software: set the values for packing and carry-over, which are the same files in every installation. The other
# commands don't call it: it would change exported variables of the same names, which the container inherits.
describe_user_software() {
    root=$sifmod_root
    directory=$sifmod_directory
    packed=$sifmod_packed
    unpacked_mark=$sifmod_mark
    module='PyTorch-NGC/24.05 it'"'"'s'
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
    venv=/user-software/venv/a+b
    image_python=/opt/venv/bin/python3
    inside=/sifmod
    uv=(/user-software/venv/a+b/bin/python -I /runscripts/installers.py uv)
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

# find_layers: set sifmod_layer_files, the user software below the user's own, that directly below it first, and of those that can be
# used sifmod_layer_binds and sifmod_layer_folders.
find_layers() {
    local number=0 below file bind options source
    sifmod_layer_files=() sifmod_layer_binds=() sifmod_layer_folders=()
    list_layers "$sifmod_root"
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
            sifmod_layer_folders+=("$below/venv/"a+b)
        else
            printf '%s: %s %s\n' "${0##*/}" "$file" 'is left out, and its packages are missing: it can'"'"'t be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r' >&2
        fi
    done
}

# set_layer_variables: the search paths of programs begin with the folders of the layers.
set_layer_variables() {
    local own
    inject PREPEND_PATH /runscripts:/user-software/venv/a+b/bin"$(printf ':%s/bin' "${sifmod_layer_folders[@]}")":/opt/venv/bin
    # the loaded module has set these
    if [[ -v __SIFMOD_LAYERS_PYTORCHMINNGC && ${CONTAINERROOT-} == "$sifmod_root" ]]; then return; fi
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
    unset SINGULARITYENV_PIP_CONSTRAINT APPTAINERENV_PIP_CONSTRAINT
    unset SINGULARITYENV_UV_EXCLUDE APPTAINERENV_UV_EXCLUDE
    unset SINGULARITYENV_WITH_CONDA APPTAINERENV_WITH_CONDA
    unset SINGULARITYENV__CE_CONDA APPTAINERENV__CE_CONDA
    unset SINGULARITYENV__CE_M APPTAINERENV__CE_M
    inject PREPEND_PATH /runscripts:/user-software/venv/a+b/bin:/opt/venv/bin
    inject VIRTUAL_ENV /user-software/venv/a+b
    inject VIRTUAL_ENV_PROMPT '(a+b) '
    inject WITH_CONDA_VENV 'source /runscripts/init-conda-venv'
    inject WITH_VENV 'source /user-software/venv/a+b/bin/activate'
    inject_unless_set PREPEND_LD_LIBRARY_PATH /.singularity.d/libs
    inject_unless_set PYTHONHOME ''
    inject_unless_set UV_LINK_MODE copy
    # The loaded module has set these, and the user may have changed or unset some since.
    if [[ ${CONTAINERROOT-} == "$sifmod_root" ]]; then return; fi
    export_unless_set EMPTY ''
    export_unless_set SHARED 'easyconfig'"'"'s'
}

set_binds() {
    local binds=(
        '/tmp/a b\,c'"'"'d$e/runscripts:/runscripts:ro'
        '/site\,data:/data 1:ro'
        '/own\,data:/own:rw'
        /plain
    )
    if [[ -e '/it'"'"'s/$HOME' ]]; then binds+=('/it'"'"'s/$HOME'); fi
    binds+=(${sifmod_feature_binds[@]+"${sifmod_feature_binds[@]}"})
    local beside='' alone
    if packed_is_active && ! [[ -r $sifmod_packed ]]; then
        beside='/tmp/a b,c'"'"'d$e/user-software.squashfs can'"'"'t be read, so /tmp/a b,c'"'"'d$e/user-software is used. Its owner can allow it with: chmod ug+r '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"''
        alone='/tmp/a b,c'"'"'d$e/user-software.squashfs can'"'"'t be read, and your packages are in it. Its owner can allow it with: chmod ug+r '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"''
    elif [[ -n $sifmod_packed_copy ]]; then
        binds+=("$sifmod_packed_copy${sifmod_packed_bind#"$sifmod_packed"}")
    elif packed_is_active && ! packed_is_whole; then
        beside='/tmp/a b,c'"'"'d$e/user-software.squashfs is damaged, so /tmp/a b,c'"'"'d$e/user-software is used. Pack it again with: rm '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"'; make-squashfs'
        alone='/tmp/a b,c'"'"'d$e/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or begin anew with: rm '"'"'/tmp/a b,c'"'"'"'"'"'"'"'"'d$e/user-software.squashfs'"'"'; eb --rebuild'
    elif packed_is_active; then
        binds+=("$sifmod_packed_bind")
        if [[ ${SLURM_PROCID:-0} == 0 && ,${SINGULARITY_BINDPATH-}, == *,'/tmp/a b\,c'"'"'d$e/user-software:/user-software',* ]]; then
            printf '%s: %s\n' "${0##*/}" 'this shell loaded PyTorch-NGC/24.05 it'"'"'s before its user software was packed, so singularity here still uses the old directory. Run: module load PyTorch-NGC/24.05 it'"'"'s' >&2
        fi
    elif [[ -d $sifmod_directory ]]; then
        binds+=('/tmp/a b\,c'"'"'d$e/user-software:/user-software')
    else
        [[ ! -L $sifmod_directory ]] || die 126 "the user software is missing: '$sifmod_directory' is a link to '$(readlink -- "$sifmod_directory")', which does not exist."
        die 126 'the user software is missing: neither /tmp/a b,c'"'"'d$e/user-software nor /tmp/a b,c'"'"'d$e/user-software.squashfs exists. Make it again, without your packages, with: eb --rebuild'
    fi
    if [[ -n $beside ]]; then
        [[ -d $sifmod_directory ]] || die 126 "$alone"
        printf '%s: %s\n' "${0##*/}" "$beside" >&2
        binds+=('/tmp/a b\,c'"'"'d$e/user-software:/user-software')
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
    local -a known=(it-s gpus other) changes
    local change name near
    chosen=,it-s,gpus,
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
                printf '%s: SIFMOD_FEATURES: there is no feature %s%s: use %s\n' "${0##*/}" "'${name::40}'" "${near:+ (perhaps you meant '$near')}" 'it-s, gpus, other' >&2
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
    plain[QUOTES]='it'"'"'s "'"${HOME-}"'" `id` \n'
    twins[ENV_PYTHONNOUSERSITE]=1
    if [[ $1 == *,it-s,* ]]; then
        unset "plain[QUOTES]"
        plain[FEATURE]='it'"'"'s "'"${HOME-}"'" `id` \n'
        twins[ENV_INNER]='$(id) it'"'"'s'
        unset "twins[ENV_PYTHONNOUSERSITE]"
        twins[_NO_UMASK]=1
        twins[_NO_MOUNT]='a '"'"'b'"'"''
        library_path+=:/ho+st/lib:/it%s
    fi
    if [[ $1 == *,gpus,* ]]; then
        library_path+=:/gpus
    fi
    if [[ -n $library_path ]]; then twins[ENV_LD_LIBRARY_PATH]=${library_path#:}'${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}'; fi
}

# use_features: find the bind paths and set the variables of the features that apply on this node. The loaded module has done so
# on its node: what it has set there is changed, and what the user has set since stays.
use_features() {
    local chosen applied=, name was one other
    local -A plain=() twins=() plain_before=() twins_before=()
    choose_features
    if [[ $chosen == *,it-s,* && -e '/it'"'"'s/$HOME [x]' ]] && is_host 'nid[0-9]*' 'a-b.c?'; then
        applied+=it-s,
    fi
    if [[ $chosen == *,gpus,* && -e /dev/kfd ]]; then
        applied+=gpus,
    fi
    if [[ $chosen == *,other,* ]]; then
        applied+=other,
    fi
    if [[ $applied == *,it-s,* && $applied == *,other,* ]]; then die 126 'the features '"'"'it-s'"'"' and '"'"'other'"'"' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other'; fi
    sifmod_feature_binds=()
    if [[ $applied == *,it-s,* ]]; then
        bind_matches '/ho st/' '' '/it'"'"'s $HOME/'[a-c]*/lib?.so || die 126 'the feature '"'"'it-s'"'"' needs '"'"'/it'"'"'s $HOME/[a-c]*/lib?.so'"'"', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s'
        [[ -e /a,b ]] || die 126 'the feature '"'"'it-s'"'"' needs '"'"'/a,b'"'"', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s'
        add_bind '/a\,b:/it'"'"'s:ro'
        bind_matches '' ro /dev/cxi[0-9] || :
        if [[ -e '/x y' ]]; then add_bind '/x y'; fi
    fi
    if [[ -n ${__SIFMOD_FEATURES+x} ]]; then
        feature_values ",${__SIFMOD_FEATURES#*:},"
        for name in "${!plain[@]}"; do plain_before[$name]=${plain[$name]}; done
        for name in "${!twins[@]}"; do twins_before[$name]=${twins[$name]}; done
    fi
    feature_values "$applied"
    for name in FEATURE QUOTES; do
        if [[ ${!name+x}${!name-} != "${plain_before[$name]+x}${plain_before[$name]-}" ]]; then
            continue
        elif [[ -n ${plain[$name]+x} ]]; then
            export "$name=${plain[$name]}"
        else
            unset "$name"
        fi
    done
    for name in ENV_INNER ENV_LD_LIBRARY_PATH ENV_PYTHONNOUSERSITE _NO_MOUNT _NO_UMASK; do
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
    local variables=(HF_HOME PIP_CACHE_DIR TORCH_HOME)
    local folders=('hugging '"'"'face'"'"'' pip a/b)
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
    root='/it'"'"'s '"${SLURM_JOB_ACCOUNT-}"'/$(id),a:b/'"${USER-}"
    if [[ -z ${USER-} ]]; then problem='USER is not set'; fi
    if [[ -z ${SLURM_JOB_ACCOUNT-} ]]; then problem='SLURM_JOB_ACCOUNT is not set'; fi
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
            printf '%s: %s, so caches are in their default places. The site has them in %s\n' "${0##*/}" "$problem" '/it'"'"'s ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}' >&2
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
        source '/tmp/a b,c'"'"'d$e/share/node-copies.sh'
        use_node_copies
    fi
    set_environment
    find_layers
    if ((${#sifmod_layer_folders[@]})); then set_layer_variables; fi
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
        source '/tmp/a b,c'"'"'d$e/share/share-container.sh'
        share_container run "$@"
    fi
    exec "$sifmod_runtime" run ${sifmod_options[@]+"${sifmod_options[@]}"} "$sifmod_image" "$@"
}

# launch_user_command NAME [ARGUMENT...]: replace this process with a command that users installed.
launch_user_command() {
    if ! in_container; then count_layers; fi
    if ((${sifmod_layer_count-0})); then launch "$@"; fi # found along the search path
    if ! in_container && ! packed_is_active && ! [[ -e $sifmod_directory/venv/a+b/bin/$1 ]]; then
        die 127 'the user software of PyTorch-NGC/24.05 it'"'"'s no longer has this command; run: refresh-commands'
    fi
    launch /user-software/venv/a+b/bin/"$1" "${@:2}"
}
