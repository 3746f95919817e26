# What packing and unpacking the user software have in common. Sourced by make-squashfs and unmake-squashfs after
# container.sh, whose variables they use.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with those scripts

describe_user_software

# A progress bar is for terminals.
quiet=(-no-progress)
if [[ -t 1 ]]; then quiet=(); fi

# end_by SIGNAL: leave nothing behind, and end by the signal, so that what calls this ends too. The packers end in their own
# way on Ctrl-C, and bash does not always come to its EXIT trap when a signal ends it.
temporary=
end_by() {
    trap '' HUP INT TERM EXIT
    clean_up
    trap - "$1"
    kill -s "$1" $$
}
clean_up() {
    if [[ -n $temporary ]]; then remove_trees "$temporary" "$temporary".*; fi
}
trap 'end_by HUP' HUP
trap 'end_by INT' INT
trap 'end_by TERM' TERM
trap clean_up EXIT

# require TOOL...: the tools that packing needs, and where they come from.
require() {
    local tool
    for tool; do
        command -v "$tool" >/dev/null || die 4 "$tool is not on this node (squashfs-tools, util-linux); try a login node."
    done
}

require_write_permission() {
    if ! [[ -w $root ]]; then
        [[ -O $root ]] || die 9 "you may not write to '$root': it belongs to $(stat -c %U -- "$root"). Ask for group write permission."
        die 9 "'$root' was installed read-only. To pack or unpack in it, type: chmod u+w '$root'"
    fi
}

# space_left: how many bytes and files still fit where the installation is, as the file system and the quotas say.
space_left() {
    local bytes files lines number='[[:space:]]+\[?([0-9]+)\]?\**'
    # used, wanted, allowed and the grace period
    local limits="${number}${number}${number}[[:space:]]+[^[:space:]]+"
    read -r bytes files < <(df --output=avail,iavail --block-size=1 -- "$root" | tail -n 1)
    if ! [[ $bytes =~ ^[0-9]+$ ]]; then bytes=$((1 << 62)); fi
    # file systems that make inodes as they need them say 0 or -
    if ! [[ $files =~ ^[1-9][0-9]*$ ]]; then files=$((1 << 62)); fi
    lines=$(quotas 2>/dev/null) || true
    # of kibibytes, then of files; 0 is no limit
    while [[ $lines =~ $limits$limits ]]; do
        lines=${lines#*"${BASH_REMATCH[0]}"}
        if ((BASH_REMATCH[3] && (BASH_REMATCH[3] - BASH_REMATCH[1]) * 1024 < bytes)); then
            bytes=$(((BASH_REMATCH[3] - BASH_REMATCH[1]) * 1024))
        fi
        if ((BASH_REMATCH[6] && BASH_REMATCH[6] - BASH_REMATCH[4] < files)); then
            files=$((BASH_REMATCH[6] - BASH_REMATCH[4]))
        fi
    done
    printf '%s %s\n' $((bytes > 0 ? bytes : 0)) $((files > 0 ? files : 0))
}

# require_space BYTES FILES: refuse at once what can't fit.
require_space() {
    local bytes files
    read -r bytes files < <(space_left)
    if ((bytes < $1)); then
        die 8 "no space in '$root', or no quota: it takes $1 bytes at least, and $bytes are left. Nothing was changed."
    fi
    if ((files < $2)); then
        die 8 "no inodes in '$root', or no quota: it takes $2 files, and $files are left. Nothing was changed."
    fi
}

# quotas: what the tools of Lustre, lfs-quota(1), and of other file systems, quota(1), say of the limits that hold for new
# files of the installation. Their columns are the same.
quotas() {
    local group project mounted
    group=$(if [[ -g $root ]]; then stat -c %g -- "$root"; else id -g; fi)
    if command -v lfs >/dev/null; then
        timeout 10 lfs quota -q -u "$UID" "$root"
        timeout 10 lfs quota -q -g "$group" "$root"
        project=$(timeout 10 lfs project -d "$root")
        if [[ $project =~ ^[[:space:]]*([1-9][0-9]*) ]]; then
            timeout 10 lfs quota -q -p "${BASH_REMATCH[1]}" "$root"
        fi
    fi
    if command -v quota >/dev/null; then
        mounted=$(df --output=target -- "$root" | tail -n 1)
        timeout 10 quota -vwp -u -f "$mounted"
        timeout 10 quota -vwp -g -f "$mounted" "$(getent group "$group" | cut -d: -f1)"
    fi
}

# looking_takes_long: whether it takes over 0.25 ms to look at a file of the directory, the mean of some. Then it pays to
# read ahead in parallel, if this mksquashfs can read a tar archive (4.5).
looking_takes_long() {
    local begin count end
    begin=$(date +%s%N)
    # head ends the pipe early; lines as long as find's buffer let it look at hardly more files than that
    count=$(find "$directory" -printf '%4095s\n' 2>/dev/null | head -n 256 | wc -l) || true
    end=$(date +%s%N)
    ((count >= 100 && end - begin > count * 250000)) || return
    [[ $(mksquashfs -version 2>/dev/null) =~ version\ ([0-9]+)\.([0-9]+) ]] || return
    ((BASH_REMATCH[1] > 4 || (BASH_REMATCH[1] == 4 && BASH_REMATCH[2] >= 5)))
}

# usable_processors: those that affinity and control group leave to this process, not those of the node.
usable_processors() {
    local count line group quota period
    count=$(nproc)
    while IFS= read -r line; do
        if [[ $line == 0::* ]]; then group=${line#0::}; fi
    done </proc/self/cgroup
    if read -r quota period 2>/dev/null <"/sys/fs/cgroup${group-}/cpu.max" && [[ $quota != max ]]; then
        quota=$(((quota + period - 1) / period))
        if ((quota < count)); then count=$quota; fi
    fi
    printf '%s' "$count"
}

# take_lock: packing and unpacking exclude each other, also between nodes where the file system has locks.
take_lock() {
    local file=$lock_file
    # A member of the group whose umask was stricter made the file: reading it is enough for the lock.
    if [[ -e $file && ! -w $file ]]; then
        [[ -r $file ]] || die 9 "you may not read '$file': $(stat -c %U -- "$file") made it private. Ask for group read permission."
        exec {lock}<"$file"
    else
        { exec {lock}>"$file"; } 2>/dev/null || die 8 "no space in '$root', or no quota. Nothing was changed."
    fi
    flock --nonblock "$lock" || die 7 "another make-squashfs or unmake-squashfs is at work in '$root'. Wait for it."
}

# Needs the lock: what lies there then is from runs that were killed, and is not in use.
clean_up_after_killed_runs() {
    rollback_is_done=false
    # A rollback that was killed before its last step: this is the only name of the file that was the packed one.
    if [[ -f $packed.replaced && ! -e $previous ]]; then
        mv -T -- "$packed.replaced" "$previous"
        rollback_is_done=true
    fi
    # what is another user's, or still being written by an orphan, may stay
    remove_trees "$root"/.packing.* "$root"/.unpacking.* "$packed.replaced" || true
}

# remove_trees PATH...: also those with folders that their owner may not write to.
remove_trees() {
    local tree
    for tree; do
        if [[ -d $tree && ! -L $tree ]]; then
            find "$tree" -type d ! -perm -u=rwx -exec chmod u+rwx {} \;
        fi
    done
    rm -rf -- "$@"
}

# make_temporary NAME: set `temporary` to a new file of the installation; it and $temporary.* are gone when the run ends.
make_temporary() {
    temporary=$(mktemp "$root/.$1.XXXXXX") || die 8 "no space in '$root', or no quota. Nothing was changed."
}

# try COMMAND...: end the run where a step fails, with 8 for want of space.
try() {
    said=$(LC_ALL=C "$@" 2>&1) || explain_failure "$1" "what was in use still is."
    if [[ -n $said ]]; then printf '%s\n' "$said" >&2; fi
}

# run_tool TOOL ARGUMENT...: its progress bar goes to a terminal; what it says otherwise is kept in `said`, not in a file on
# a disk that may be full. Unpacked files have the modes that were packed, whatever the umask. The lock is not passed on:
# when this script is killed, the next run need not wait for an orphan.
run_tool() {
    if ((${#quiet[@]})); then
        said=$(umask 0 && exec "$@" 2>&1 {lock}>&-)
    else
        { said=$(umask 0 && exec "$@" 2>&1 >&3 {lock}>&-); } 3>&1
    fi
}

# explain_failure TOOL STATE: end the run of a tool that failed, and has left its words in `said`.
explain_failure() {
    printf '%s\n' "$said" >&2
    if [[ ${said,,} == *'no space left'* || ${said,,} == *'quota exceeded'* ]]; then
        die 8 "no space in '$root', or no quota. Nothing was changed: $2"
    fi
    die 5 "$1 failed (see above). Nothing was changed: $2"
}

# give_usual_mode FILE...: mktemp's files are private; these are as readable and writable as any new file.
give_usual_mode() {
    chmod "$(printf '%o' $((0666 & ~$(umask))))" "$@"
}

# bind_source PATH: the path as the runtime reads it in a list of binds.
bind_source() {
    local path=${1//,/\\,}
    printf '%s' "${path//:/\\:}"
}

# trees BINDS ARGUMENT...: run share/inside/trees.py with the image's Python, these binds and that folder alone.
trees() {
    local only
    only=$1,$(bind_source "$root/share/inside"):$inside:ro
    shift
    find_runtime
    find_image
    SINGULARITY_BINDPATH=$only APPTAINER_BINDPATH=$only \
        "$runtime" exec "$sif" "$image_python" -I "$inside/trees.py" "$@"
}

# compare_trees PACKED DIRECTORY sizes|full [SINCE VENV]: mount the packed file as the container will, and compare it with the
# directory, of which nothing may have changed since that time (seconds.nanoseconds). Then list the packages of VENV, as
# list_user_packages does.
# Status 0: the same, 1: different, anything else: it could not be mounted.
compare_trees() {
    trees "$(bind_source "$1"):$user_software:ro,image-src=/,$(bind_source "$2"):/mnt:ro" \
        compare /mnt "$user_software" "${@:3}" < <(LC_ALL=C unsquashfs -lln "$1" 2>/dev/null)
}

# restore_set_id_bits PACKED DIRECTORY: unsquashfs does so for root only, and the folders of a project have such bits.
restore_set_id_bits() {
    trees "$(bind_source "$1"):$user_software:ro,image-src=/,$(bind_source "$2"):/mnt" \
        set-id-bits "$user_software" /mnt </dev/null
}

# list_user_packages PACKED FILE: write name==version of what is installed in it, as `pip install -r` reads it.
list_user_packages() {
    trees "$(bind_source "$1"):$user_software:ro,image-src=/" packages "$venv" </dev/null >"$2"
}

# reload_hint: the module of an interactive shell is reloaded by the function that the module defines.
reload_hint() {
    if [[ -z ${SIFMOD_RELOADS-} ]]; then
        printf 'Shells that have the module loaded see it after: module load %s\n' "$module"
    fi
}
