# SquashFS files mounted by FUSE on this node, for a runtime that mounts what is on the host, not what is in such a file. A file is
# mounted once for all commands of a Slurm step, or of a user outside of steps: the first command mounts it, and share/hold-mount
# unmounts it when the last one has ended, however it has. Not once for a job: Slurm kills all processes of a step at its end, and
# with them the mount.
#     FOLDER            $XDG_RUNTIME_DIR/sifmod-mounts or /tmp/sifmod-mounts-UID, which only the user may enter; its lock is held for
#                       each change. Not in /dev/shm: a runtime can't mount that in a container with another mount below it. It stays,
#                       so that nobody else gets its name, which jobs give to Slurm.
#     FOLDER/KEY/root   the mount; KEY tells jobs, steps and files apart
#     FOLDER/KEY/users  a file for each command that uses it: process and start time
#     FOLDER/KEY/holder process and start time of hold-mount
#     FOLDER/KEY/said   what the FUSE program of share/mount-in-job has printed
# shellcheck shell=bash disable=SC2154 # sifmod_root is of container.sh

# shellcheck source=on-node.sh
source "${BASH_SOURCE[0]%/*}/on-node.sh"

# started PID: set start to when a process has started, in clock ticks since the boot; fails if it has ended
started() {
    local status=''
    { IFS= read -rd '' status <"/proc/$1/stat" || :; } 2>/dev/null
    status=${status##*) }
    read -ra status <<<"$status"
    start=${status[19]-}
    # a zombie has ended, and its parent has not noticed
    [[ -n $start && ${status[0]} != [ZX] ]]
}

# is_running PROCESS-START
is_running() {
    local start
    started "${1%-*}" && [[ $start == "${1#*-}" ]]
}

# is_used FOLDER/KEY: whether commands use the mount; forgets those that have ended
is_used() {
    local user ended=() used=1
    for user in "$1"/users/*; do
        if is_running "${user##*/}"; then used=0; else ended+=("$user"); fi
    done
    if ((${#ended[@]})); then rm -f -- "${ended[@]}"; fi
    return "$used"
}

# mount_is_held FOLDER/KEY: whether hold-mount will unmount it
mount_is_held() {
    local holder=''
    { IFS= read -r holder <"$1/holder"; } 2>/dev/null
    [[ -n $holder ]] && is_running "$holder"
}

# lock_mounts FOLDER: open the folder as sifmod_mounts_lock and lock it; fails as own_folder does. A module of an older sifmod removes it
# when it is empty, maybe between two of these lines, so one look does not count.
lock_mounts() {
    local look
    for look in {1..50}; do
        own_folder "$1" make || continue
        sifmod_mounts_lock=$sifmod_own
        if ! lock_open "$sifmod_own" "$1"; then
            exec {sifmod_mounts_lock}<&-
            return 1
        fi
        # the status is written out: in a trap, a bare return has that of the command before the trap
        if [[ $1 -ef /proc/$BASHPID/fd/$sifmod_mounts_lock ]]; then return 0; fi
        exec {sifmod_mounts_lock}<&-
        sifmod_own_problem="'$1' was removed $look times"
    done
    return 1
}

# unmount FOLDER/KEY: also one whose FUSE program was killed. Containers that still have it keep it until they end.
unmount() {
    local tool
    for tool in fusermount3 fusermount; do
        if "$tool" -u -z "$1/root" 2>/dev/null; then break; fi
    done
    rm -f -- "$1"/users/* "$1/holder" "$1/said"
    rmdir -- "$1/users" "$1/root" "$1" 2>/dev/null || :
}

# ignore_signals: for FUSE programs. Slurm sends signals to all processes of a step, and what a task does then, such as writing a
# checkpoint, needs the mount. Without a handler of its own for an ignored signal (libfuse), such a program ends when it is unmounted.
ignore_signals() {
    trap '' HUP INT QUIT TERM USR1 USR2
}

# find_mounts: set sifmod_mounts to FOLDER. Its path goes into a mount of the container.
find_mounts() {
    local folder=${XDG_RUNTIME_DIR-}
    if [[ $folder == /* && $folder != *[[:space:]:\\]* && ! -L $folder && -d $folder && -O $folder && -w $folder ]]; then
        sifmod_mounts=$folder/sifmod-mounts
    else
        sifmod_mounts=/tmp/sifmod-mounts-$UID
    fi
}

# find_squashfuse FILE: set tool to the program that mounts FILE on this node
find_squashfuse() {
    for tool in squashfuse_ll squashfuse ''; do
        if hash "$tool" 2>/dev/null; then break; fi
    done
    [[ -n $tool ]] ||
        die 126 "'$1' can't be mounted: 'squashfuse' is not installed on this node, and this runtime needs it for packed files. Use a node that has it, unpack the user software with unmake-squashfs, or start Apptainer with SIFMOD_RUNTIMES=apptainer."
}

# clear_mounts [FOLDER/KEY]: unmount what nobody uses, such as what is left of steps that Slurm has killed, and this one
clear_mounts() {
    local other
    for other in "$sifmod_mounts"/*; do
        if [[ ! -d $other ]]; then continue; fi
        if [[ $other == "${1-}" ]] || { ! mount_is_held "$other" && ! is_used "$other"; }; then unmount "$other"; fi
    done
}

# mount_squashfs FILE: set mounted to a folder with the contents of a SquashFS file, for this process and what it becomes
mount_squashfs() {
    local file=$1 sifmod_own sifmod_own_path sifmod_own_problem sifmod_mounts sifmod_mounts_lock folder tool said state start step=0.0
    find_squashfuse "$file"
    if [[ ! -r $file ]] || ! state=$(stat -Lc '%d-%i-%s-%Y' -- "$file" 2>/dev/null); then die 126 "'$file' can't be read."; fi
    if [[ ${SLURM_JOB_ID-} =~ ^[0-9]{1,10}$ && ${SLURM_STEP_ID:-0} =~ ^[0-9]{1,10}$ ]]; then
        step=$SLURM_JOB_ID.${SLURM_STEP_ID:-batch}
    fi
    find_mounts
    lock_mounts "$sifmod_mounts" ||
        die 126 "'$file' can't be mounted: $sifmod_own_problem. Set XDG_RUNTIME_DIR to a folder that only you can enter, or ask an administrator."
    sifmod_mounts=$sifmod_own_path
    folder=$sifmod_mounts/$step-$state
    # The kernel remembers the folder of a mount whose program is gone, and asks the program for this.
    if ! { mountpoint -q "$folder/root" && stat -f "$folder/root"; } &>/dev/null; then
        clear_mounts "$folder"
        mkdir -p -- "$folder"/{root,users}
        if ! said=$(close_files && ignore_signals && exec "$tool" "$file" "$folder/root" 2>&1 </dev/null); then
            unmount "$folder"
            die 126 "'$file' can't be mounted with $tool: ${said##*$'\n'}"
        fi
    fi
    started "$BASHPID"
    : >"$folder/users/$BASHPID-$start"
    if ! mount_is_held "$folder"; then
        # not a child of this process: the program that it becomes may wait for its children
        said=$(
            close_files
            setsid "$sifmod_root/share/hold-mount" "$folder" </dev/null >/dev/null 2>&1 &
            printf '%s' "$!"
        )
        if started "$said"; then printf '%s-%s\n' "$said" "$start" >"$folder/holder"; fi
    fi
    exec {sifmod_mounts_lock}<&-
    # shellcheck disable=SC2034 # for the caller
    mounted=$folder/root
}
