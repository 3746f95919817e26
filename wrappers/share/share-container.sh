# One container for all tasks of a Slurm step on a node. container.sh sources this if the user, the easyconfig or the site asks for
# it. The first task starts share/hold-container, which starts the container, and each enters it. A task that can't do so returns
# from share_container, and starts a container of its own.
# shellcheck shell=bash disable=SC2154 # those of container.sh

# in_own_container REASON: say it once, as far as tasks know of each other
in_own_container() {
    if [[ ${sifmod_holder-} && -e $sifmod_holder/15 ]]; then
        if [[ -s $sifmod_holder/15 ]]; then return 0; fi
        printf 'said\n' >>"$sifmod_holder/15"
    elif [[ $SLURM_PROCID != 0 ]]; then
        return 0
    fi
    printf '%s: no shared container, so each task has its own: %s\n' "${0##*/}" "$1" >&2
}

# in_step: whether this is a task of a step. Batch scripts and interactive shells have no such number or one with ten digits.
in_step() {
    local LC_ALL=C # ranges of letters are those of ASCII
    [[ ${SLURM_JOB_ID-} =~ ^[0-9]{1,10}$ && ${SLURM_STEP_ID-} =~ ^[0-9]{1,9}$ && ${SLURM_PROCID-} =~ ^[0-9]+$ &&
        ${SLURM_GTIDS-} =~ ^[0-9]+(,[0-9]+)*$ && ${SLURMD_NODENAME-} =~ ^[A-Za-z0-9._-]{1,128}$ ]]
}

is_exported() {
    [[ -v $1 && ${!1@a} == *x* ]]
}

# find_obstacle: set sifmod_obstacle to what keeps this task from sharing a container, whatever the others do
find_obstacle() {
    local tool name setting
    sifmod_obstacle=
    for tool in nsenter setsid setpriv mkfifo mktemp; do
        if ! hash "$tool" 2>/dev/null; then
            sifmod_obstacle="'$tool' (of coreutils or util-linux) is not installed on this node"
            return
        fi
    done
    # In these everybody may make a folder, and nobody may remove or rename that of somebody else.
    for sifmod_place in /dev/shm /tmp ''; do
        if [[ -d $sifmod_place && -k $sifmod_place && -w $sifmod_place && -x $sifmod_place ]]; then break; fi
    done
    name=$sifmod_place/sifmod-$UID
    if [[ -z $sifmod_place ]]; then
        sifmod_obstacle='neither /dev/shm nor /tmp is a folder for all users'
    elif [[ -L $name || -e $name && ! ( -d $name && -O $name ) ]]; then
        sifmod_obstacle="'$name' is a link or belongs to another user"
    elif ((${#sifmod_options[@]})); then
        sifmod_obstacle="SIFMOD_RUNTIME_OPTIONS is set: '$SIFMOD_RUNTIME_OPTIONS'"
    fi
    for name in "${!SINGULARITY@}" "${!APPTAINER@}"; do
        setting=${name#SINGULARITY} setting=${setting#APPTAINER}
        if [[ $setting == _* && " $sifmod_shareable " != *" $setting "* && ${!name} ]] && is_exported "$name"; then
            sifmod_obstacle="$name is set"
        fi
    done
    sifmod_place+=/sifmod-$UID
}

# describe_container: set sifmod_key to what the container is made of: tasks share it only if nothing of it differs
describe_container() {
    local name files=("$sifmod_image")
    if packed_is_active; then files+=("$sifmod_packed"); fi
    sifmod_key="one container of $UID for the tasks $SLURM_GTIDS"$'\n'"$sifmod_way $sifmod_runtime"$'\n'
    sifmod_key+=$(stat -Lc '%n %d:%i %s %Z' -- "${files[@]}")$'\n'
    for name in "${!SINGULARITY@}" "${!APPTAINER@}"; do
        if is_exported "$name"; then sifmod_key+="$name=${!name@Q}"$'\n'; fi
    done
}

# hold_container WAY: start the holder, and wait until it has the link or has failed
hold_container() {
    local tasks=${SLURM_GTIDS//[^,]/} reply
    # shellcheck disable=SC2034 # it is waited for
    reply=$(
        setsid "$sifmod_root/share/hold-container" "$sifmod_holder" "$$" "$((${#tasks} + 1))" \
            "$1" "$sifmod_runtime" "$sifmod_image" <<<"$sifmod_key" &
    )
}

# pause: wait a little, at a pipe in which nothing is written: another process would cost more
pause() {
    if [[ -z $sifmod_silence ]]; then exec {sifmod_silence}<> <(:); fi
    read -rt 0.01 -u "$sifmod_silence" || :
}

# join_holder: open the pipe of the holder that sifmod_holder leads to as sifmod_hold, and read how to enter the container. Fails
# with 1 if there is none any more, with 2 if it holds another container.
join_holder() {
    local theirs=
    until [[ -s $sifmod_holder/12 ]]; do
        [[ -e $sifmod_holder ]] || return 1
        pause
    done
    { IFS= read -rd '' theirs <"$sifmod_holder/12"; } 2>/dev/null || :
    if [[ $theirs != "$sifmod_key"$'\n' ]]; then return 2; fi
    { exec {sifmod_hold}>"$sifmod_holder/10"; } 2>/dev/null || return 1
    until [[ -s $sifmod_holder/14 ]]; do
        [[ -e $sifmod_holder ]] || break
        pause
    done
    # With the pipe open, the holder stays if tasks can still find it.
    if [[ -s $sifmod_holder/14 && /proc/self/fd/$sifmod_hold -ef $sifmod_holder/10 ]]; then
        # shellcheck source=/dev/null
        source "$sifmod_holder/13"
    else
        exec {sifmod_hold}>&-
        sifmod_hold=
        return 1
    fi
}

# find_holder WAY: find or start the holder of this container
find_holder() {
    local number=0 attempt status
    sifmod_problem='' sifmod_silence=''
    for ((attempt = 0; attempt < 24; attempt++)); do
        sifmod_holder=$sifmod_place/$SLURM_JOB_ID.$SLURM_STEP_ID-$SLURMD_NODENAME-$number
        if [[ -O $sifmod_holder ]]; then
            status=0
            join_holder || status=$?
            if ((status == 0)); then break; fi
            if ((status == 2)); then ((number += 1)); fi
        else
            if [[ -L $sifmod_holder && ! -e $sifmod_holder ]]; then rm -f -- "$sifmod_holder"; fi
            hold_container "$1"
        fi
    done
    if [[ -n $sifmod_silence ]]; then exec {sifmod_silence}>&-; fi
    [[ -n $sifmod_hold ]]
}

# is_here PATH: whether it is the working directory in the container too, by a path without links
is_here() {
    local path=/proc/$sifmod_container/root part parts
    IFS=/ read -rd '' -a parts <<<"$1" || :
    for part in "${parts[@]%$'\n'}"; do
        if [[ -n $part ]]; then path+=/$part; fi
        if [[ -L $path && $path != "/proc/$sifmod_container/root" ]]; then return 1; fi
    done
    [[ . -ef $path ]]
}

# may_be_there PATH: whether the container has it, as far as can be seen: the kernel lets nobody outside of it into packed user
# software and other images that are bound. Their mount points are listed, but can't be looked at.
may_be_there() {
    local root=/proc/$sifmod_container/root parent=$1 child='' entry
    if [[ -e $root$1 || -L $root$1 ]]; then return 0; fi
    until [[ -z $parent || -e $root$parent ]]; do
        child=$parent parent=${parent%/*}
    done
    for entry in "$root$parent"/*; do
        if [[ $entry == "$root$child" && ! -L $entry ]]; then return 0; fi
    done
    return 1
}

# has_command COMMAND: whether the container has it; one that can't be seen is looked for when it starts
has_command() {
    local folder folders
    case $1 in
    *=*) return 1 ;;
    /*) may_be_there "$1" ;;
    */*) [[ -e $1 ]] ;;
    *)
        IFS=: read -ra folders <<<"$sifmod_path"
        for folder in "${folders[@]}"; do
            if may_be_there "$folder/$1"; then return 0; fi
        done
        return 1
        ;;
    esac
}

# fits COMMAND: whether this task can enter the container as it would start its own; sets sifmod_here to the working directory
fits() {
    local name value
    if [[ -n $sifmod_problem ]]; then
        sifmod_obstacle=$sifmod_problem
        return 1
    elif [[ ! -e /proc/$sifmod_container/root ]]; then
        sifmod_obstacle='the container has ended'
        return 1
    fi
    for name in "${!sifmod_sources[@]}"; do
        value=
        if is_exported "$name"; then value=x${!name}; fi
        if [[ $value != "${sifmod_sources[$name]}" ]]; then
            sifmod_obstacle="$name differs between tasks, and the variables of the container may depend on it"
            return 1
        fi
    done
    sifmod_here=$PWD
    if ! is_here "$sifmod_here"; then
        sifmod_here=$(pwd -P)
        if ! is_here "$sifmod_here"; then
            sifmod_obstacle="the working directory '$PWD' is not in it"
            return 1
        fi
    fi
    # the message and the exit status for that are the runtime's
    has_command "$1" || sifmod_obstacle="it has no '$1'"
    [[ -z $sifmod_obstacle ]]
}

# share_container LAUNCH COMMAND [ARGUMENT...]: replace this process with the command in the shared container, unless that can't be.
share_container() {
    local sifmod_obstacle='' sifmod_hold='' sifmod_script=0 sifmod_instance='' sifmod_way=mounts
    if ! in_step; then return 0; fi
    find_obstacle
    if [[ $1 == run ]]; then sifmod_obstacle='every command starts by the entry point of the image'; fi
    shift
    if [[ -z $sifmod_obstacle ]]; then
        if [[ ${SIFMOD_SHARE_INSTANCE-} == @(true|1) ]]; then sifmod_way=instance; fi
        describe_container
        find_holder "$sifmod_way" || sifmod_obstacle=${sifmod_obstacle:-it did not start}
    fi
    if [[ -n $sifmod_obstacle ]] || ! fits "$1"; then
        in_own_container "$sifmod_obstacle"
        if [[ -n $sifmod_hold ]]; then exec {sifmod_hold}>&-; fi
        return 0
    fi
    # Slurm's own process, which starts tasks, is root's.
    if [[ -O /proc/$PPID ]]; then sifmod_script=$PPID; fi
    printf '%s\n' "$sifmod_script" >&"$sifmod_hold"
    if [[ -n $sifmod_instance ]]; then
        export APPTAINER_CONFIGDIR=$sifmod_instance SINGULARITY_CONFIGDIR=$sifmod_instance
        exec "$sifmod_runtime" exec instance://sifmod "$@"
    fi
    sifmod_enter=("${BASH_CMDS[setpriv]}" --no-new-privs "${BASH_CMDS[nsenter]}" -t "$sifmod_container" -U --preserve-credentials -m -r
        --wd="/proc/$sifmod_container/root$sifmod_here" /usr/bin/env ${sifmod_late[@]+"${sifmod_late[@]}"})
    if ((${#sifmod_dropped[@]})); then unset "${sifmod_dropped[@]}"; fi
    if ((${#sifmod_made[@]})); then export "${sifmod_made[@]}"; fi
    exec "${sifmod_enter[@]}" "$@"
}
