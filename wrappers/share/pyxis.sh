# What a job script of `sifmod sbatch --pyxis` gives to srun for the container of a module. It sources this file
# after it has loaded the module, whose list of bind paths and whose variables are taken as they are then, with what the user has
# changed. Sets SQSH, CONTAINER_MOUNTS and CONTAINER_ENV, or ends the job with one sentence.
# shellcheck shell=bash disable=SC2034,SC2154 # for the job script; those of values.sh and runtimes.sh

# shellcheck source=../runscripts/values.sh
source "${BASH_SOURCE[0]%/*}/../runscripts/values.sh"
source "$sifmod_root/runscripts/more-values.sh"
source "$sifmod_root/share/runtimes.sh"

# pyxis_refuse MESSAGE
pyxis_refuse() {
    printf '%s: %s\n' "$sifmod_module" "$1" >&2
    exit 1
}

# pyxis_mount SOURCE DESTINATION FLAG: add a mount
pyxis_mount() {
    can_mount pyxis "$1" "$2" || pyxis_refuse "$sifmod_refusal or run the job without pyxis"
    CONTAINER_MOUNTS+=${CONTAINER_MOUNTS:+,}$1:$2${3:+:$3}
}

# pyxis_mount_file FILE: for mount_binds
pyxis_mount_file() {
    pyxis_files+=("$1")
    mounted=$pyxis_folder.${#pyxis_files[@]}/root
}

# pyxis_names: set CONTAINER_ENV to the names of the module's variables, and of the user's for the container, that have a value. pyxis
# writes each as a line of a file, so a value of several lines is left out: the container inherits it anyway.
pyxis_names() {
    local name
    CONTAINER_ENV=SQSH
    while IFS= read -r name; do
        case $name in
        SINGULARITYENV_* | APPTAINERENV_*) ;;
        *) if [[ " $sifmod_passed " != *" $name "* ]]; then continue; fi ;;
        esac
        if [[ -n ${!name} && ${!name} != *$'\n'* ]]; then CONTAINER_ENV+=,$name; fi
    done < <(compgen -e)
    wait "$!" || :
}

# pyxis_mount_files: mount packed files, such as user software, on each node of the job. pyxis mounts only folders and files of the host,
# so a step of this job does it, beside the others. It unmounts them when it reads something or its standard input ends, as it does with
# this shell, and with the programs that it starts or becomes.
pyxis_mount_files() {
    local line nodes=${SLURM_JOB_NUM_NODES:-1} mounted=0 input output
    local -a unset=()
    if [[ ! ${SLURM_JOB_ID-} =~ ^[0-9]{1,10}$ ]]; then
        pyxis_refuse "'${pyxis_files[0]}' is a packed file, which only a job of sbatch or salloc can mount for pyxis: use one, or unpack user software with unmake-squashfs"
    fi
    if [[ ${SLURM_HET_SIZE:-1} != 1 ]]; then
        pyxis_refuse "'${pyxis_files[0]}' is a packed file, which can't be mounted on all nodes of a heterogeneous job: unpack user software with unmake-squashfs, or run the job without pyxis"
    fi
    if [[ ! $nodes =~ ^[1-9][0-9]{0,5}$ ]]; then
        pyxis_refuse "SLURM_JOB_NUM_NODES should be a number set by Slurm but is '$nodes'"
    fi
    # srun takes options from variables too, of sbatch and of the user: they are for the tasks, and some do not go with the ones below
    while IFS= read -r line; do
        case $line in
        SLURM_JOB_* | SLURM_JOBID | SLURM_CONF* | SLURM_CLUSTER* | SLURM_HET_SIZE | SLURM_WORKING_CLUSTER | SLURM_JWT | SLURM_SPANK_*) ;;
        SLURM_* | SRUN_*) unset+=(-u "$line") ;;
        esac
    done < <(compgen -e)
    wait "$!" || :
    # pipes without names, opened for each direction by itself; a coproc would be in the way of one of the job script. In a session of
    # its own: srun kills its tasks at once when a script signals its process group.
    exec {input}<> <(:)
    wait "$!" || :
    exec {output}<> <(:)
    wait "$!" || :
    env ${unset[@]+"${unset[@]}"} \
        setsid srun --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --gres=none --mpi=none --input=all \
        --kill-on-bad-exit=1 --quiet --job-name=mount-packed --chdir=/ \
        "$sifmod_root/share/mount-in-job" "$pyxis_folder" "${pyxis_files[@]}" \
        <"/proc/self/fd/$input" >"/proc/self/fd/$output" {input}>&- {output}>&- &
    # a job script that waits for its children does not mean this one
    disown "$!"
    exec {pyxis_input}>"/proc/self/fd/$input" {pyxis_output}<"/proc/self/fd/$output" {input}>&- {output}>&-
    pyxis_inputs+=("$pyxis_input")
    pyxis_outputs+=("$pyxis_output")
    # not for as long as TMOUT of a site says, which may be readonly in the shell of the job script
    while ((mounted < nodes)) && IFS= read -rt 99999999 -u "$pyxis_output" line; do
        # others are of the site's plugins
        if [[ $line == *mounted ]]; then mounted=$((mounted + 1)); fi
    done
    if ((mounted < nodes)); then
        pyxis_refuse "packed files were mounted on $mounted of $nodes nodes, for the reason above: unpack user software with unmake-squashfs, or run the job without pyxis"
    fi
    pyxis_at_exit
}

# pyxis_at_exit: end the steps that mount at the end of the job script, after what it does then itself. Else Slurm ends them, and says so
# as an error. A subshell shows the trap of the shell around it as its own, and runs none of it.
pyxis_at_exit() {
    local shown
    local -a words
    shown=$(trap -p EXIT)
    if [[ $shown == *pyxis_end* ]]; then return; fi
    eval "words=($shown)"
    # `trap -- COMMANDS EXIT`, with `-` for none in POSIX mode
    case ${words[2]--} in
    -) trap pyxis_end EXIT ;;
    *) if [[ $BASHPID == "$$" ]]; then trap "${words[2]}"$'\npyxis_end' EXIT; fi ;;
    esac
}

# pyxis_end: end the steps that mount, and wait until they have ended. By a line, because a program in the background may still have
# the pipe open.
pyxis_end() {
    local number input output
    trap '' PIPE
    for number in "${!pyxis_inputs[@]}"; do
        input=${pyxis_inputs[number]} output=${pyxis_outputs[number]}
        { printf '\n' >&"$input"; } 2>/dev/null || :
        exec {input}>&-
        while IFS= read -rt 10 -u "$output"; do :; done
    done
    pyxis_inputs=() pyxis_outputs=()
}

# a variable with an option that srun does not accept would hide the others
case $(env -u SLURM_EXCLUSIVE srun --help 2>&1) in
*--container-image*--container-mounts*) ;;
*) pyxis_refuse "srun has no options --container-image and --container-mounts: ask an administrator to load pyxis, or run the job without it" ;;
esac
# the module has set it, unless the image was gone then
export SQSH=$sifmod_squashfs
if [[ ! -f $SQSH ]]; then
    pyxis_refuse "${sifmod_said[squashfs_is_gone]}"
fi
ask_for_gpus

# The working directory comes first: a mount hides what is mounted below its destination before. The host's /tmp is never mounted.
CONTAINER_MOUNTS=''
pyxis_files=()
# of all modules whose pyxis.sh the job script has sourced
pyxis_inputs=(${pyxis_inputs[@]+"${pyxis_inputs[@]}"})
pyxis_outputs=(${pyxis_outputs[@]+"${pyxis_outputs[@]}"})
pyxis_folder=/tmp/sifmod-mounts-$UID/${SLURM_JOB_ID-}.pyxis-$RANDOM$RANDOM
if [[ -z ${sifmod_system_folders[${PWD:-/}]-} && $PWD != /tmp ]]; then pyxis_mount "$PWD" "$PWD" ''; fi
mount_binds pyxis "${APPTAINER_BINDPATH-${SINGULARITY_BINDPATH-}},${APPTAINER_BIND-${SINGULARITY_BIND-}}"
pyxis_names
if ((${#pyxis_files[@]})); then pyxis_mount_files; fi
