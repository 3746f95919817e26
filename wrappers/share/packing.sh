# Shared by the commands that pack, unpack and change layers, which source it after container.sh and use the variables of both.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with those scripts

source "$sifmod_root/share/user-commands.sh"
describe_user_software
unset TMOUT # of a site that ends idle shells: read would not wait for a sum, or for find

# The owner can read and write what is made here, whatever the umask takes from others.
umask u+rwx

# The directory may be a link to another file system. What is made beside it has names that begin with `beside`.
tree=$directory beside=$root/
if [[ -L $directory ]]; then
    tree=$(readlink -m -- "$directory")
    beside=${tree%/*}/.${tree##*/}
fi
# the file system that is written to, for messages too
place=$root

# The progress bar is only for terminals.
quiet=(-no-progress)
if [[ -t 1 ]]; then quiet=(); fi

# end_by SIGNAL: clean up, then end by the same signal, so that the caller ends too. The packers handle Ctrl-C themselves, and
# bash does not always run its EXIT trap when a signal ends it.
temporary=
mine=
writing_was_allowed=false
end_by() {
    trap '' HUP INT TERM EXIT
    clean_up
    trap - "$1"
    kill -s "$1" $$
}
clean_up() {
    put_back
    if [[ -n $temporary ]]; then remove_trees "$temporary" "$temporary".* ${mine:+"$mine".*} || true; fi
    if $writing_was_allowed && packed_is_active && [[ -d $tree ]]; then forbid_writing || true; fi
}
trap 'end_by HUP' HUP
trap 'end_by INT' INT
trap 'end_by TERM' TERM
trap clean_up EXIT

# require TOOL...: fail unless these tools are installed.
require() {
    local tool package
    for tool; do
        case $tool in flock) package=util-linux ;; sha256sum) package=coreutils ;; *) package=squashfs-tools ;; esac
        command -v "$tool" >/dev/null || die 4 "'$tool' (of $package) is not installed on this node; try a login node."
    done
}

# require_user_software: fail if both copies are gone. A link that leads nowhere is said elsewhere.
require_user_software() {
    if [[ ! -e $directory && ! -L $directory && ! -e $packed ]]; then die_because 2 missing; fi
}

# require_whole: fail if what is packed, which is in use, is damaged.
require_whole() {
    if packed_is_whole; then return; fi
    if [[ -d $directory ]]; then die_because 6 damaged_beside_directory; fi
    die_because 6 damaged_alone
}

require_write_permission() {
    if ! [[ -w $root ]]; then
        [[ -O $root ]] || die 9 "no permission to write to '$root', which belongs to $(stat -c %U -- "$root"): ${sifmod_said[may_not_write]}"
        die 9 "'$root' was installed read-only. To pack or unpack there, run: chmod u+w '$root'"
    fi
}

# space_left: print how many bytes and files the file system and the quotas still allow in `place`, and who says so.
space_left() {
    local bytes files lines says="'df' says" number='[[:space:]]+\[?([0-9]+)\]?\**'
    # used, soft limit, hard limit and grace period
    local limits="${number}${number}${number}[[:space:]]+[^[:space:]]+"
    read -r bytes files < <(df --output=avail,iavail --block-size=1 -- "$place" | tail -n 1)
    if ! [[ $bytes =~ ^[0-9]+$ ]]; then bytes=$((1 << 62)); fi
    # file systems that create inodes on demand report 0 or -
    if ! [[ $files =~ ^[1-9][0-9]*$ ]]; then files=$((1 << 62)); fi
    lines=$(quotas 2>/dev/null) || true
    # first of kibibytes, then of files; 0 means no limit
    while [[ $lines =~ $limits$limits ]]; do
        lines=${lines#*"${BASH_REMATCH[0]}"}
        if ((BASH_REMATCH[3] && (BASH_REMATCH[3] - BASH_REMATCH[1]) * 1024 < bytes)); then
            bytes=$(((BASH_REMATCH[3] - BASH_REMATCH[1]) * 1024))
            says="'$(type -P lfs || type -P quota)' says, read as KiB"
        fi
        if ((BASH_REMATCH[6] && BASH_REMATCH[6] - BASH_REMATCH[4] < files)); then
            files=$((BASH_REMATCH[6] - BASH_REMATCH[4]))
            says="'$(type -P lfs || type -P quota)' says, read as KiB"
        fi
    done
    printf '%s %s %s\n' $((bytes > 0 ? bytes : 0)) $((files > 0 ? files : 0)) "$says"
}

# require_space BYTES FILES: fail before anything is written if that can't fit.
require_space() {
    local bytes files says
    read -r bytes files says < <(space_left)
    if ((bytes < $1)); then
        die 8 "not enough space or quota in '$place': needs at least $1 bytes, $bytes are free, as $says. Nothing was changed."
    fi
    if ((files < $2)); then
        die 8 "not enough inodes or quota in '$place': needs $2 files, $files are free, as $says. Nothing was changed."
    fi
}

# quotas: print the limits for new files in `place`, as reported by lfs-quota(1) for Lustre and quota(1) for other
# file systems. Both print the same columns.
quotas() {
    local group project mounted
    group=$(if [[ -g $place ]]; then stat -c %g -- "$place"; else id -g; fi)
    if command -v lfs >/dev/null; then
        timeout 10 lfs quota -q -u "$UID" "$place"
        timeout 10 lfs quota -q -g "$group" "$place"
        project=$(timeout 10 lfs project -d "$place")
        if [[ $project =~ ^[[:space:]]*([1-9][0-9]*) ]]; then
            timeout 10 lfs quota -q -p "${BASH_REMATCH[1]}" "$place"
        fi
    fi
    if command -v quota >/dev/null; then
        mounted=$(df --output=target -- "$place" | tail -n 1)
        blocks_of -u -f "$mounted"
        blocks_of -g -f "$mounted" "$(getent group "$group" | cut -d: -f1)"
    fi
}

# blocks_of OPTION...: what quota(1) prints. A centre's own command of this name may count in GiB, and has no column of blocks.
blocks_of() {
    local said
    said=$(timeout 10 quota -vwp "$@") || :
    if [[ $said == *blocks* ]]; then printf '%s\n' "$said"; fi
}

# looking_takes_long: whether stat takes more than 0.25 ms per file of the directory, measured on a sample. Then reading ahead
# in parallel is faster, if mksquashfs can read a tar archive (4.5 and later).
looking_takes_long() {
    local begin count end
    begin=$(date +%s%N)
    # head ends the pipe early; each line fills the buffer of find, which thus looks at few files more than that
    count=$(find "$tree" -printf '%4095s\n' 2>/dev/null | head -n 256 | wc -l) || true
    end=$(date +%s%N)
    ((count >= 100 && end - begin > count * 250000)) || return
    [[ $(mksquashfs -version 2>/dev/null) =~ version\ ([0-9]+)\.([0-9]+) ]] || return
    ((BASH_REMATCH[1] > 4 || (BASH_REMATCH[1] == 4 && BASH_REMATCH[2] >= 5)))
}

# may_write_other_contents: whether mksquashfs is 4.7 to 4.7.4, which may write other contents than it reads if files have long runs
# of zeros (plougher/squashfs-tools#339, #340).
may_write_other_contents() {
    [[ $(mksquashfs -version 2>/dev/null) =~ version\ 4\.7(\.[0-4])?[^.0-9] ]]
}

# usable_processors: print how many processors affinity and control groups allow this process, not how many the node has. A limit
# of version 1 of control groups is not read: Slurm sets cpusets there, which are affinity.
usable_processors() {
    local count line group='' quota period
    count=$(nproc)
    while IFS= read -r line; do
        if [[ $line == 0::/?* ]]; then group=${line#0::}; fi
    done </proc/self/cgroup
    # each level above limits it too; the last one is the top, which in a container has a limit
    while :; do
        if read -r quota period 2>/dev/null <"/sys/fs/cgroup$group/cpu.max" && [[ $quota != max ]]; then
            quota=$(((quota + period - 1) / period))
            if ((quota < count)); then count=$quota; fi
        fi
        if [[ -z $group ]]; then break; fi
        group=${group%/*}
    done
    printf '%s' "$count"
}

# require_packed_file FILE: fail if there is something with the name of a packed file that can't be one, or can't be read.
require_packed_file() {
    if [[ -e $1 && ! -f $1 ]]; then
        die 3 "'$1' is a $(stat -Lc %F -- "$1"), but should be a SquashFS file: move it away."
    elif [[ -e $1 && ! -r $1 ]]; then
        die 9 "'$1' can't be read. Its owner can allow it with: chmod ug+r ${1@Q}"
    fi
}

# take_lock: let only one packing or unpacking run at a time, also across nodes if the file system has locks.
take_lock() {
    local file=$lock_file refusal="'$lock_file' is no plain file, but should be a lock file: find out who put it there, and remove it."
    # Opening must not empty or fill a file elsewhere, which a symbolic link may lead to, nor wait for a named pipe.
    if [[ -L $file || -e $file && ! -f $file ]]; then die 5 "$refusal"; fi
    # A group member with a stricter umask may have created the file: read permission is enough for the lock.
    if [[ -O $file && ! -r $file ]]; then chmod -- u+rw "$file"; fi
    if [[ -e $file && ! -w $file ]]; then
        [[ -r $file ]] || die 9 "no permission to read '$file', which belongs to $(stat -c %U -- "$file"): ask for group read permission."
        exec {lock}<"$file"
    else
        said=$({ LC_ALL=C && : >>"$file"; } 2>&1) || explain_failure "opening the lock '$file'" "nothing was begun."
        exec {lock}>>"$file"
    fi
    if [[ -L $file ]]; then die 5 "$refusal"; fi
    said=$(LC_ALL=C flock --nonblock --conflict-exit-code 75 "$lock" 2>&1) || case $? in
    75) die 7 "another command that packs, unpacks or changes layers is running in '$root': wait until it has finished." ;;
    *) die 5 "'$file' can't be locked ($said), so nothing keeps two commands from working at once. Nothing was changed. The file system must allow locks (Lustre: mount option flock; NFS: its lock service), and you must be allowed to write to that file." ;;
    esac
}

# close_lock: for a subshell, whose programs do not hold the lock. It may be nobody's: `sifmod verify` compares without it.
close_lock() {
    if [[ -n ${lock-} ]]; then exec {lock}>&-; fi
}

# Call it with the lock held: temporary files are then left from killed runs, and nothing uses them.
clean_up_after_killed_runs() {
    local path
    put_back
    remove_stubs
    rollback_is_done=false
    # A rollback was killed before its last step: the file that was the packed one has only this name.
    if [[ -f $packed.replaced && ! -e $previous ]]; then
        try mv -T -- "$packed.replaced" "$previous"
        rollback_is_done=true
    fi
    # files of other users, or of an orphan that still writes, may stay
    for path in "$root"/.packing.* "$root"/.unpacking.* "$root"/.layering.* "$beside".packing.* "$beside".unpacking.* \
        "$beside".layering.* "$packed.replaced"; do
        # if put_back could not rename it, nobody has looked for changes in it
        if [[ $path != *.looking ]]; then remove_trees "$path" || true; fi
    done
}

# remove_stubs: fail if pip or uv works on the directory; remove the stubs that a killed uv has left there.
remove_stubs() {
    local stubs status
    for stubs in "$tree"/venv/*/"$sifmod_install_lock"; do
        if [[ -f $stubs && -r $stubs && ! -L $stubs ]]; then
            status=0
            LC_ALL=C flock --nonblock --conflict-exit-code 75 "$stubs" true 2>/dev/null || status=$?
            ((status != 75)) || die 7 "an install is running in '$directory': wait until it has finished."
        fi
    done
    for stubs in "$tree"/venv/*/"$sifmod_stubs"; do
        if [[ -d $stubs && ! -L $stubs ]]; then
            remove_trees "${stubs%/*}"/lib/python3*/site-packages/*-v[0-9]*.dist-info "$stubs" 2>/dev/null || true
        fi
    done
}

# put_back: a run was ended after it had renamed the directory, and before it had looked for late changes in it.
put_back() {
    local path
    for path in "$beside".packing.*.looking; do
        if [[ -d $path && ! -e $tree ]]; then mv -T -- "$path" "$tree"; fi
    done
}

# remove_trees PATH...: remove trees, also if their owner may not write to some folders.
remove_trees() {
    open_trees "$@"
    rm -rf -- "$@"
}

# open_trees PATH...: let the owner remove what is in these trees.
open_trees() {
    local tree
    for tree; do
        if [[ -d $tree && ! -L $tree ]]; then
            find "$tree" -type d ! -perm -u=rwx -exec chmod u+rwx {} \;
        fi
    done
}

# make_temporary NAME: set `temporary` to a new file in the installation, and `mine` to a name beside the directory; these and
# what begins with them and a dot are removed when the run ends.
make_temporary() {
    said=$(LC_ALL=C mktemp "$root/.$1.XXXXXX" 2>&1) || explain_failure mktemp "nothing was begun."
    temporary=$said
    said=$({ LC_ALL=C && : >"$temporary.mode"; } 2>&1) || explain_failure "writing '$temporary.mode'" "nothing was begun."
    mine=$beside${temporary#"$root/"}
}

# What users read of a step that is a function; others have the name of their tool.
declare -A steps=(
    [list_user_packages]='listing the packages' [make_environment]='making an empty environment' [mark_unused]='marking an unused layer'
    [record_sum]='recording the SHA-256' [rename]=mv [use_directory_from_now]='marking the directory as in use'
    [write_list]='writing the list of packages' [write_order]='finding the order of the files'
)

# try COMMAND...: end the run if a step fails; the exit status is 8 if space or quota is exhausted.
so_far=
try() {
    said=$(LC_ALL=C "$@" 2>&1) || explain_failure "${steps[$1]-$1}" "the same user software is in use as before."
    if [[ -n $said ]]; then show "$said"; fi
}

# run_tool WHAT SIZE TOOL ARGUMENT...: show its progress bar on a terminal, else how far it is, as with_progress does, and keep its other
# output in `said`, not in a file on a disk that may be full. umask 0 keeps the packed modes of unpacked files. The tool does not
# inherit the lock: if this script is killed, the next run need not wait for an orphan.
run_tool() {
    local screen status=0
    if ((${#quiet[@]})) || [[ $3 != *squashfs ]]; then # others have no bar
        exec {screen}>&2
        said=$(umask 0 && close_lock && with_progress "$@" 2>&1) || status=$?
        exec {screen}>&-
        return "$status"
    fi
    { said=$(umask 0 && close_lock && exec "${@:3}" 2>&1 >&3); } 3>&1
}

# write_through ARGUMENT...: sync, which may take long
write_through() {
    LC_ALL=C run_tool "writing to the disk" 0 sync "$@" || explain_failure sync "the same user software is in use as before."
}

# explain_failure TOOL STATE: end the run after a tool failed, with its output in `said`. `so_far` says what was changed; empty: nothing.
explain_failure() {
    local status=$?
    if [[ -n $said ]]; then show "$said"; fi
    if ((status == 255)); then exit 255; fi # of run_python
    if [[ ${said,,} == *'no space left'* || ${said,,} == *'quota exceeded'* ]]; then
        die 8 "not enough space, inodes or quota in '$root'. ${so_far:-Nothing was changed: $2}"
    fi
    die 5 "$1 failed${said:+ (see above)}. ${so_far:-Nothing was changed: $2}"
}

# sum_of FILE: print its SHA-256. The host's openssl uses the processor's instructions for it; the sha256sum of many distributions does
# not, and takes three times as long or more.
sum_of() (
    close_lock
    sum=
    if [[ -x /usr/bin/openssl ]]; then sum=$(/usr/bin/openssl dgst -sha256 -r <"$1" 2>/dev/null) || sum=; fi
    if [[ ! $sum =~ ^[0-9a-f]{64}[[:space:]] ]]; then sum=$(sha256sum <"$1") || return; fi
    printf '%s' "${sum%% *}"
)

# begin_sums FILE...: begin to read these files; read_sum waits for each. What else reads them meanwhile finds them in memory.
begin_sums() {
    exec {summing}< <(close_lock && for file; do sum_of "$file" || true && printf '\n'; done)
}

# read_sum: set `sum` to the next SHA-256; empty if the file could not be read.
read_sum() {
    read -r sum <&"$summing" || sum=
}

# recorded_sums [RECORD]: print the SHA-256 of the packed files that make-squashfs has written here, the newest first; nothing if it
# was an older make-squashfs, which recorded none.
recorded_sums() {
    local sum record=${1-$sums}
    [[ -f $record && -r $record ]] || return 0
    while read -r sum; do
        if [[ $sum =~ ^[0-9a-f]{64}$ ]]; then printf '%s\n' "$sum"; fi
    done <"$record"
}

# record_sum SUM: add the SHA-256 of a file that is about to become the packed one, and keep earlier ones: a run may be killed before
# it renames a file, and --rollback swaps two.
record_sum() {
    local older=() file sum
    mapfile -t older < <(recorded_sums)
    if ((${#older[@]} == 0)); then
        # an older make-squashfs has recorded none
        for file in "$packed" "$previous"; do
            if [[ -f $file && -r $file ]]; then
                sum=$(sum_of "$file") || return
                older+=("$sum")
            fi
        done
    fi
    printf '%s\n' "$1" ${older[@]+"${older[@]}"} | head -n 20 >"$temporary.sums" &&
        give_usual_mode "$temporary.sums" &&
        sync -- "$temporary.sums" &&
        mv -T -- "$temporary.sums" "$sums"
}

# check_sum FILE SUM [RECORD]: fail if the SHA-256 of a packed file is not one that was recorded; say if none was.
check_sum() {
    local known record=${3-$sums}
    [[ -n $2 ]] || die 5 "'$1' can't be read (see above). Nothing was changed."
    known=$(recorded_sums "$record")
    if [[ -z $known ]]; then
        warn "no SHA-256 of '$1' was recorded when it was packed, so it is not compared."
    elif [[ $'\n'$known$'\n' != *$'\n'"$2"$'\n'* ]]; then
        die 6 "'$1' has the SHA-256 $2, but another one was recorded when it was packed: it is damaged, or not the same file. Nothing was changed. Restore it from a backup. If you have put it there, remove '$record' and try again."
    fi
}

# give_usual_mode FILE...: give files of mktemp, which are private, the mode of any new file, by the umask or a default ACL of the
# folder.
give_usual_mode() {
    chmod --reference="$temporary.mode" -- "$@"
}

# bind_source PATH: print the path, escaped for the runtime's list of binds.
bind_source() {
    local path=${1//,/\\,}
    printf '%s' "${path//:/\\:}"
}

# run_python BINDS WORD...: run the image's Python, which sees only these binds; die with 255, in a subshell too, if no container starts. The
# runtime does not inherit the lock: after a kill, the processes that mount the container's file systems stay, and would hold it until
# somebody ends them.
run_python() {
    local only=$1 status=0
    shift
    find_runtime
    find_image
    # without what bash says of a process that a signal has ended, which is the text of these lines
    { (
        close_lock
        if [[ -n $sifmod_runtime_script ]]; then
            # shellcheck source=/dev/null
            source "$root/$sifmod_runtime_script" && start_contained "$only" "$sifmod_image_python" -I "$@"
            exit
        fi
        export SINGULARITY_BINDPATH=$only APPTAINER_BINDPATH=$only SINGULARITY_BIND='' APPTAINER_BIND=''
        exec "$sifmod_runtime" exec "${sifmod_contained_options[@]}" "$sifmod_image" "$sifmod_image_python" -I "$@"
    ) 2>&3 3>&-; } 3>&2 2>/dev/null || status=$?
    if ((status > 1)) && [[ $1 != -c ]]; then
        run_python '' -c pass &>/dev/null </dev/null ||
            die 255 "the container did not start (see above). Is the memory of a process limited here? Look with: ulimit -v. If so, use another node."
        status=$((status == 255 ? 254 : status))
    fi
    return "$status"
}

# trees BINDS ARGUMENT...: run share/inside/trees.py, which sees only these binds and share/inside.
trees() {
    run_python "$1,$(bind_source "$root/share/inside"):$inside:ro" "$inside/trees.py" "${@:2}"
}

# compare_trees PACKED DIRECTORY sizes|full: mount the packed file as the container does, and compare it with the directory.
# Status 0: equal, 1: different, any other: it could not be mounted.
compare_trees() {
    compare_and_check '' "$@"
}

# compare_packed PACKED DIRECTORY sizes|full SINCE VENV: compare as compare_trees does, and that nothing in the directory has changed since
# that time (seconds.nanoseconds). If so, print the exit status of the check whether the packages in the packed file fit each other, those
# of layers and the image's; a line for each that does not; an empty line; and the packages of VENV, as list_user_packages does.
compare_packed() {
    local below status=0
    below=$(layer_binds)
    compare_and_check "$below,$(bind_source "$root/runscripts"):${consistency%/*}:ro" "$@" "$consistency" "$user_software" || status=$?
    # the file may be what can't be mounted, or a layer
    if ((status > 1)) && [[ $below ]]; then
        status=0
        compare_and_check '' "$@" || status=$?
    fi
    return "$status"
}

# compare_and_check BINDS PACKED DIRECTORY ARGUMENT...: compare with further binds, each with a comma before it
compare_and_check() {
    trees "$(bind_source "$2"):$user_software:ro,image-src=/,$(bind_source "$3"):/mnt:ro$1" \
        compare /mnt "$user_software" "${@:4}" < <(
        exec 2>/dev/null
        close_lock
        LC_ALL=C unsquashfs -lln "$2"
        if [[ $4 == full ]]; then
            # all bytes in one stream, where it can write that (4.5 and later); the queues are of MiB, and by default of 256
            printf '\0'
            LC_ALL=C unsquashfs -no-progress -processors "$(usable_processors)" -data-queue 32 -frag-queue 32 -pf /dev/stdout "$2"
        fi
    )
}

# restore_set_id_bits PACKED DIRECTORY: unsquashfs restores them only for root, and project folders have such bits.
restore_set_id_bits() {
    trees "$(bind_source "$1"):$user_software:ro,image-src=/,$(bind_source "$2"):/mnt" \
        set-id-bits "$user_software" /mnt </dev/null
}

# list_user_packages PACKED FILE: write name==version of the installed packages, in the format of `pip install -r`.
list_user_packages() {
    trees "$(bind_source "$1"):$user_software:ro,image-src=/" packages "$venv" </dev/null >"$2"
}

# layer_binds: print the binds of the layers, each with a comma before it.
layer_binds() {
    find_layers 2>/dev/null
    if ((${#sifmod_layer_binds[@]})); then printf ',%s' "${sifmod_layer_binds[@]}"; fi
}

# warn_of_packages STATUS LINE...: say what the check of packages has found. The packages are packed all the same.
warn_of_packages() {
    if (($1 == 1)) && [[ ${2-} ]]; then
        warn "warning: these packages do not fit: programs may fail."
        local IFS=$'\n'
        show "${*:2}"
        warn "before you change that: unmake-squashfs. After it: make-squashfs --replace"
    elif (($1)); then
        warn "the packages could not be compared with those of the image."
    fi
}

# forbid_writing: take write permission from all folders of the directory, which is no longer used. Containers and shells that
# still use it can read it, and what they would lose fails. The modes that the folders had are recorded first. Fails if folders
# stay writable: those of other users, whose modes only they can change.
forbid_writing() {
    local record=$tree/$sifmod_folder_modes draft
    # the modes that folders had before an earlier run stay recorded while some of them can't get them back
    if allow_writing; then
        writing_was_allowed=false
        # a new file: others may write to the directory, and could put a link there
        draft=$(mktemp "$record.XXXXXX" 2>/dev/null) || draft=
        if [[ -z $draft ]] || ! { find "$tree" -type d -printf '%m ./%P\0' >"$draft" && chmod -- 644 "$draft" &&
            mv -T -- "$draft" "$record"; } 2>/dev/null; then
            warn_of_open_folders
            return 1
        fi
    fi
    if ! find "$tree" -type d -perm /222 -exec chmod a-w {} + 2>/dev/null; then
        warn_of_open_folders
        return 1
    fi
}

warn_of_open_folders() {
    warn "not all folders of '$directory' could be made read-only. What is written there from now on is not packed."
}

# allow_writing: undo forbid_writing, also if a run was killed in the middle of it; fails if folders of others stay as they are.
# The record is not trusted: only folders that find sees in the directory get another mode. Those that have theirs are left
# alone: they may be other users', and were writable all the time.
allow_writing() {
    local record=$tree/$sifmod_folder_modes mode path all=true
    local -A recorded=() modes=()
    # drafts of killed runs
    rm -f -- "$record".* 2>/dev/null || true
    if [[ ! -f $record || -L $record ]]; then return; fi
    writing_was_allowed=true
    while IFS= read -rd '' path; do
        mode=${path%% *}
        if [[ $mode =~ ^[0-7]{1,4}$ ]]; then
            recorded[${path#* }]=$mode
            modes[$mode]=x
        fi
    done <"$record"
    for mode in "${!modes[@]}"; do
        find "$tree" -type d ! -perm "$mode" -printf './%P\0' | while IFS= read -rd '' path; do
            if [[ ${recorded[$path]-} == "$mode" ]]; then printf '%s\0' "$tree/$path"; fi
        done | xargs -0 -r chmod -- "$mode" 2>/dev/null || all=false
    done
    $all || return
    rm -f -- "$record"
}

# owners_of_closed_folders: print whose folders of the directory stay read-only for this user.
owners_of_closed_folders() {
    local owner
    local -A owners=()
    while IFS= read -r owner; do owners[$owner]=x; done < <(find "$tree" -type d ! -perm -u=w ! -user "$EUID" -printf '%u\n')
    printf '%s' "${!owners[*]}"
}

# say FORMAT WORD...: print what was done. A standard output that is closed, or a full disk, is no error.
say() {
    # shellcheck disable=SC2059 # the format is the script's own
    (trap '' PIPE && printf "$@") 2>/dev/null || true
}

# reload_hint: in an interactive shell, the function that the module defines reloads the module instead. Bash runs each part of a
# pipe in a shell of its own, so there the function reloads the module for nobody.
reload_hint() {
    if [[ -z ${SIFMOD_RELOADS-} ]]; then
        say 'In shells that have the module loaded, run: module load %s\n' "$module"
    elif ! [[ -t 1 ]]; then
        warn "standard output is not a terminal. After a pipe, your shell still uses the old bind list: run: module load $module"
    fi
}
