# What the runscripts for distributed programs share. They source this after values.sh.
# shellcheck shell=bash disable=SC2154 # those of values.sh

# shellcheck source=on-node.sh
source "${BASH_SOURCE[0]%/*}/on-node.sh"

fail() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit 1
}

# The functions below set a variable instead of printing, because every $(...) costs each rank a process.

# number NAME VARIABLE: set NAME to the number in a variable of Slurm or another launcher, without evaluating it.
number() {
    [[ ${!2-} =~ ^[0-9]+$ ]] || fail "$2 should be a number but is '${!2-}': is this a step of Slurm, started by srun?"
    printf -v "$1" %s "$((10#${!2}))"
}

# count_local_tasks NAME: set NAME to the number of this step's tasks on this node. Slurm lists them in SLURM_GTIDS. Its lists of
# tasks per node are in the order of the node list, which in heterogeneous steps is not the order of SLURM_NODEID.
count_local_tasks() {
    local -a ids
    [[ ${SLURM_GTIDS-} =~ ^[0-9]+(,[0-9]+)*$ ]] ||
        fail "SLURM_GTIDS should list the tasks of this node but is '${SLURM_GTIDS-}': is this a Slurm step?"
    IFS=, read -ra ids <<<"$SLURM_GTIDS"
    printf -v "$1" %s "${#ids[@]}"
}

# check_step: fail in the batch script of a job, which is one process with the variables of a task.
check_step() {
    [[ -v SLURM_STEP_ID ]] || fail 'this is the batch script of a job, not one of its tasks: put srun in front of the command'
}

# name_srun WHAT OF_STEP OF_JOB: say so if the job has more than this step. The shell of salloc is a step of one task.
name_srun() {
    if [[ $3 =~ ^[0-9]{1,9}$ ]] && ((10#$3 > $2)); then
        printf '%s: this step has %s of the %s %s of the job: put srun in front of the command to use all\n' "${0##*/}" "$2" "$3" "$1" >&2
    fi
}

# set_port JOB STEP: unless MASTER_PORT is set, set it to the port that Slurm reserved for the step, or to one below the
# ephemeral range that depends on job and step, so that steps on the same node use different ports. Each job has a block of 64.
set_port() {
    if [[ -n ${MASTER_PORT-} ]]; then
        return
    elif [[ ${SLURM_STEP_RESV_PORTS-} =~ ^[0-9]+ ]]; then
        MASTER_PORT=${BASH_REMATCH[0]}
    else
        MASTER_PORT=$((20000 + $1 % 187 * 64 + $2 % 64))
    fi
}

# lacks_exec FOLDER: whether programs can't be run from the file system of a folder. Of mounts in one place the last counts.
lacks_exec() {
    local way top sifmod_own_path place options longest='' found=''
    find_way "$1/." # follows a link too
    while read -r _ _ _ _ place options _; do
        printf -v place %b "$place"
        if [[ $sifmod_own_path/ == "${place%/}"/* && ${#place} -ge ${#longest} ]]; then longest=$place found=$options; fi
    done </proc/self/mountinfo
    [[ ,$found, == *,noexec,* ]]
}

# use_home_cache: where TMPDIR lacks exec, let compilers cache below the user's cache folder: torch would put its cache, and Triton's, into
# TMPDIR, and could not load what it compiles.
use_home_cache() {
    local caches=${XDG_CACHE_HOME-} variable folder said="'${TMPDIR:-/tmp}' (TMPDIR) is mounted without exec"
    local sifmod_own sifmod_own_path sifmod_own_problem sifmod_own_made
    if [[ -v TRITON_CACHE_DIR && -v TORCHINDUCTOR_CACHE_DIR ]] || ! lacks_exec "${TMPDIR:-/tmp}"; then return 0; fi
    [[ $caches == /* ]] || caches=${HOME-}/.cache
    if [[ ! -e $caches ]] && own_folder "$caches" make; then exec {sifmod_own}<&-; fi
    if own_folder "$caches/sifmod" make; then
        exec {sifmod_own}<&-
        for variable in TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR; do
            folder=${variable%_CACHE_DIR}
            [[ -v $variable ]] || export "$variable=$sifmod_own_path/${folder,,}"
        done
        said+=", so compiled code is kept below '$sifmod_own_path'"
    else
        said+=", and $sifmod_own_problem: torch.compile will fail. Set TMPDIR to a folder from which programs can run"
    fi
    [[ ${LOCAL_RANK:-${SLURM_LOCALID:-0}} != 0 ]] || printf '%s: %s\n' "${0##*/}" "$said" >&2
}

# use_node_cache [JOB]: let compilers and libraries cache in a folder of this user and job on the node, because parallel file
# systems lack the locks that they need. Anybody can guess its name: if it is not safe, a new folder is used, and none if others may rename
# what is in TMPDIR. Variables set by the user, or by use_caches, are kept. Sets `made_cache` to the folder if it was missing.
# shellcheck disable=SC2034 # serve removes it
use_node_cache() {
    local cache=${TMPDIR:-/tmp}/sifmod-$UID${1:+-$1} problem='' suffix variable
    local sifmod_own sifmod_own_path sifmod_own_problem sifmod_own_made
    use_home_cache
    for suffix in '' ".$RANDOM$RANDOM"; do
        if own_folder "$cache$suffix" make; then break; fi
        problem=${problem:-$sifmod_own_problem}
    done
    if [[ -z $sifmod_own ]]; then
        [[ ${SLURM_LOCALID:-0} != 0 ]] ||
            printf '%s: %s, so caches are in their usual places: set TMPDIR to a folder of yours on this node\n' "${0##*/}" "$problem" >&2
        return 0
    fi
    exec {sifmod_own}<&-
    if [[ -n $problem ]]; then printf "%s: %s; caches are in '%s'\n" "${0##*/}" "$problem" "$sifmod_own_path" >&2; fi
    if [[ -n $sifmod_own_made ]]; then made_cache=$sifmod_own_path; fi
    for variable in "${sifmod_node_caches[@]}"; do
        [[ -v $variable ]] || export "$variable=$sifmod_own_path"
    done
}

# show_gpus GPU...: let this process see these GPUs only. The first variable selects by the node's numbers, the second within that list, counted
# from 0, and any other would select once more.
show_gpus() {
    local -a within=("$@")
    local IFS=,
    export "${sifmod_visible[0]}=$*"
    if ((${#sifmod_visible[@]} > 1)); then
        within=("${!within[@]}")
        export "${sifmod_visible[1]}=${within[*]}"
        unset "${sifmod_visible[@]:2}"
    fi
}

# find_gpus: set `gpus` to the GPUs that Slurm granted to this process, empty if it sets no list, and make all variables that select GPUs agree.
# Fail if the job asked for GPUs and got none, with a clearer message than the framework's. Old releases of Slurm set NoDevFiles then.
find_gpus() {
    local asked=${SLURM_GPUS-}${SLURM_GPUS_PER_NODE-}${SLURM_GPUS_PER_TASK-} variable granted index
    local -a chosen=()
    gpus=()
    for variable in "${sifmod_visible[@]:0:3}"; do
        if [[ -v $variable ]]; then
            granted=${!variable}
            break
        fi
    done
    if [[ ! -v granted ]]; then return 0; fi
    if [[ $asked == *[1-9]* && $granted =~ ^(NoDevFiles)?$ ]]; then
        fail "the job asked for GPUs, but Slurm granted none to this task ($variable is '$granted')"
    fi
    if [[ $granted == NoDevFiles ]]; then return 0; fi
    IFS=, read -ra gpus <<<"$granted"
    if ((${#sifmod_visible[@]} == 1)); then return 0; fi
    # set to something else, the second one is the user's choice within the first
    if [[ $variable == "${sifmod_visible[0]}" && -v ${sifmod_visible[1]} && ${!sifmod_visible[1]} != "$granted" ]]; then
        variable=${sifmod_visible[1]}
        IFS=, read -ra chosen <<<"${!variable}"
        for index in "${!chosen[@]}"; do
            if [[ ! ${chosen[index]} =~ ^[0-9]{1,4}$ ]] || ((10#${chosen[index]} >= ${#gpus[@]})); then
                fail "$variable is '${!variable}': write places in ${sifmod_visible[0]}, '$granted', counted from 0"
            fi
            chosen[index]=${gpus[10#${chosen[index]}]}
        done
        gpus=("${chosen[@]}")
    fi
    show_gpus "${gpus[@]}"
}
