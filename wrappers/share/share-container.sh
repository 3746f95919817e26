# One container for all tasks of a Slurm step on a node. container.sh sources this if the user, the easyconfig or the site asks for
# it. The first task starts share/hold-container, which starts the container, and each enters it. A task that can't do so returns
# from share_container, and starts a container of its own.
# shellcheck shell=bash disable=SC2154 # those of container.sh

source "$sifmod_root/share/on-node.sh"
source "$sifmod_root/share/held-files.sh"
more_values

# in_own_container REASON: say it once for the step, or for the node if the reason may hold there only, as far as tasks know of each other
in_own_container() {
    local speaker=$SLURM_PROCID said=${sifmod_holder-}/${sifmod_held[said]}
    if [[ -n $sifmod_on_node ]]; then speaker=${SLURM_LOCALID:-$SLURM_PROCID}; fi
    if [[ -s $said ]]; then return 0; fi
    # the place may be full
    if [[ ! -e $said ]] || ! { printf 'said\n' >>"$said"; } 2>/dev/null; then
        if [[ $speaker != 0 ]]; then return 0; fi
    fi
    printf '%s: no shared container%s, so each task has its own: %s\n' "${0##*/}" "${sifmod_on_node:+ on $sifmod_on_node}" "$1" >&2
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
    sifmod_obstacle='' sifmod_on_node=''
    for tool in flock nsenter setsid setpriv mkfifo; do
        if ! hash "$tool" 2>/dev/null; then
            sifmod_obstacle="'$tool' (of coreutils or util-linux) is not installed on this node"
            return
        fi
    done
    # In these everybody may make a folder, and nobody may remove or rename that of somebody else.
    for sifmod_place in /dev/shm /tmp ''; do
        if [[ -d $sifmod_place && -k $sifmod_place && -w $sifmod_place && -x $sifmod_place ]]; then break; fi
    done
    if [[ -z $sifmod_place ]]; then
        sifmod_obstacle='neither /dev/shm nor /tmp is a folder for all users'
    elif ((${#sifmod_options[@]})); then
        sifmod_obstacle="SIFMOD_RUNTIME_OPTIONS is set: '$SIFMOD_RUNTIME_OPTIONS'"
    elif ((${#sifmod_gpu_options[@]})); then
        sifmod_obstacle="GPUs of this site need the option ${sifmod_gpu_options[*]}"
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
    sifmod_key="one container of $UID for the tasks $SLURM_GTIDS"$'\n'"$sifmod_runtime"$'\n'
    sifmod_key+=$(stat -Lc '%n %d:%i %s %Z' -- "${files[@]}")$'\n'
    for name in "${!SINGULARITY@}" "${!APPTAINER@}"; do
        if is_exported "$name"; then sifmod_key+="$name=${!name@Q}"$'\n'; fi
    done
}

# hold_container: start the holder, and wait until it has the link, or says why it has not. Fails if that can't be mended.
hold_container() {
    local tasks=${SLURM_GTIDS//[^,]/} said
    said=$(
        setsid "$sifmod_root/share/hold-container" "$sifmod_place" "$sifmod_name" "$$" "$((${#tasks} + 1))" \
            "$sifmod_runtime" "$sifmod_image" <<<"$sifmod_key" &
    )
    case $said in
    held | taken | '') ;;
    *)
        sifmod_obstacle=$said
        return 1
        ;;
    esac
}

# pause: wait a little, at a pipe in which nothing is written: another process would cost more
pause() {
    if [[ -z $sifmod_silence ]]; then exec {sifmod_silence}<> <(:); fi
    read -rt 0.01 -u "$sifmod_silence" || :
}

# holder_is_alive: whether sifmod_holder leads to the files of a holder. That of a killed one may lead to another process with its number.
holder_is_alive() {
    [[ $sifmod_holder/${sifmod_held[place]} -ef /proc/self/fd/$sifmod_own ]]
}

# join_holder: open the pipe of the holder that sifmod_holder leads to as sifmod_hold, and read how to enter the container. Fails
# with 1 if there is none any more, with 2 if it holds another container.
join_holder() {
    local theirs='' key=$sifmod_holder/${sifmod_held[key]} whole=$sifmod_holder/${sifmod_held[whole]}
    until [[ -s $key ]]; do
        holder_is_alive || return 1
        pause
    done
    { IFS= read -rd '' theirs <"$key"; } 2>/dev/null || :
    if [[ $theirs != "$sifmod_key"$'\n' ]]; then return 2; fi
    { command exec {sifmod_hold}>"$sifmod_holder/${sifmod_held[commands]}"; } 2>/dev/null || return 1
    until [[ -s $whole ]]; do
        holder_is_alive || break
        pause
    done
    # With the pipe open, the holder stays if tasks can still find it.
    if [[ -s $whole && /proc/self/fd/$sifmod_hold -ef $sifmod_holder/${sifmod_held[commands]} ]]; then
        # shellcheck source=/dev/null
        source "$sifmod_holder/${sifmod_held[entry]}"
    else
        exec {sifmod_hold}>&-
        sifmod_hold=
        return 1
    fi
}

# clear_link: remove the link of a holder that was killed: others take theirs away. One task says so. Fails if that can't be mended.
clear_link() {
    if [[ ! -L $sifmod_holder ]] || holder_is_alive; then return 0; fi
    if ! lock_open "$sifmod_own" "$sifmod_place"; then
        sifmod_obstacle=$sifmod_own_problem
        return 1
    fi
    if [[ -L $sifmod_holder ]] && ! holder_is_alive; then
        rm -f -- "$sifmod_holder"
        printf "%s: on %s, the process that held this step's container was killed, as for want of memory: tasks in it lose their files\n" \
            "${0##*/}" "$SLURMD_NODENAME" >&2
    fi
    flock -u "$sifmod_own"
}

# find_holder: find or start the holder of this container; else set sifmod_obstacle
find_holder() {
    local number=0 attempt failures=0 status sifmod_name
    sifmod_problem='' sifmod_silence='' sifmod_holder='' sifmod_on_node=$SLURMD_NODENAME
    if ! own_folder "$sifmod_place" make; then
        sifmod_obstacle=$sifmod_own_problem
        return 1
    fi
    for ((attempt = 0; attempt < 24 && failures < 3; attempt++)); do
        sifmod_name=$SLURM_JOB_ID.$SLURM_STEP_ID-$SLURMD_NODENAME-$number
        sifmod_holder=/proc/self/fd/$sifmod_own/$sifmod_name
        if holder_is_alive; then
            status=0
            join_holder || status=$?
            if ((status == 0)); then break; fi
            if ((status == 1)); then ((failures += 1)); else ((number += 1)); fi
        else
            clear_link || break
            hold_container || break
            holder_is_alive || ((failures += 1))
        fi
    done
    if [[ -n $sifmod_silence ]]; then exec {sifmod_silence}>&-; fi
    if [[ -z $sifmod_hold && -z $sifmod_obstacle ]]; then
        sifmod_obstacle='the processes that should hold it have ended: they were killed, or '
        if ((failures < 3)); then sifmod_obstacle="this step has $number others already"; else sifmod_obstacle+="'${sifmod_place%/*}' is full"; fi
    fi
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

# can_enter COMMAND: whether this task can enter the container as it would start its own; sets sifmod_here to the working directory
can_enter() {
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
    # env would take the name for a variable, or an option
    if [[ $1 == *=* || $1 == -* ]]; then sifmod_obstacle="${1@Q} is the name of the command"; fi
    [[ -z $sifmod_obstacle ]]
}

# share_container LAUNCH COMMAND [ARGUMENT...]: replace this process with the command in the shared container, unless that can't be.
share_container() {
    local sifmod_obstacle='' sifmod_hold='' sifmod_script=0 sifmod_own='' sifmod_holder=''
    if ! in_step; then return 0; fi
    find_obstacle
    if [[ $1 == run ]]; then sifmod_obstacle='every command starts by the entry point of the image'; fi
    shift
    if [[ -z $sifmod_obstacle ]]; then
        describe_container
        if find_holder; then sifmod_on_node=''; fi
    fi
    if [[ -n $sifmod_obstacle ]] || ! can_enter "$1"; then
        in_own_container "$sifmod_obstacle"
        if [[ -n $sifmod_hold ]]; then exec {sifmod_hold}>&-; fi
        if [[ -n $sifmod_own ]]; then exec {sifmod_own}<&-; fi
        return 0
    fi
    exec {sifmod_own}<&-
    # Slurm's own process, which starts tasks, is root's.
    if [[ -O /proc/$PPID ]]; then sifmod_script=$PPID; fi
    printf '%s\n' "$sifmod_script" >&"$sifmod_hold"
    sifmod_enter=("${BASH_CMDS[setpriv]}" --no-new-privs "${BASH_CMDS[nsenter]}" -t "$sifmod_container" -U --preserve-credentials -m -r
        --wd="/proc/$sifmod_container/root$sifmod_here" /usr/bin/env ${sifmod_late[@]+"${sifmod_late[@]}"})
    if ((${#sifmod_dropped[@]})); then unset "${sifmod_dropped[@]}"; fi
    if ((${#sifmod_made[@]})); then export "${sifmod_made[@]}"; fi
    exec "${sifmod_without[@]}" "${sifmod_enter[@]}" "$@"
}
