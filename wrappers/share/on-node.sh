# Places and processes of a user on a node. Names in /tmp, /dev/shm and the like can be guessed: other users may make what has them.
# shellcheck shell=bash disable=SC2034 # variables for scripts that source this

# own_folder FOLDER [make]: open FOLDER as sifmod_own, if it is a folder of this user that is closed to others, and nobody else can put
# another in its place. Else set sifmod_own_problem and fail. What is open was looked at, so it can't be swapped between look and use:
# /proc/self/fd/$sifmod_own/NAME.
own_folder() {
    local path=${1%/} above
    sifmod_own='' sifmod_own_problem=''
    above=$(cd -P -- "${path%/*}/" 2>/dev/null && pwd -P) || above=''
    if [[ $path != /*[!./]* || $path == *[[:cntrl:]]* || $above != /* ]]; then
        sifmod_own_problem="there is no folder '${path%/*}'"
        return 1
    fi
    above=${above%/}
    path=$above/${path##*/}
    if [[ ${2-} == make && ! -e $path && ! -L $path ]]; then mkdir -m 700 -- "$path" 2>/dev/null || :; fi
    # with the slash, it does not wait at a pipe; a bare exec that fails would end a shell with POSIXLY_CORRECT
    if { command exec {sifmod_own}<"$path/"; } 2>/dev/null; then
        check_owners "$path"
        if [[ -z $sifmod_own_problem ]]; then return 0; fi
        exec {sifmod_own}<&-
    elif [[ -e $path || -L $path ]]; then
        sifmod_own_problem="'$path' is not a folder of yours"
    elif [[ ${2-} != make ]]; then
        sifmod_own_problem="'$path' was removed meanwhile"
    else
        sifmod_own_problem="'$path' can't be made: '${above:-/}' is full, or can't be written to"
    fi
    sifmod_own=''
    return 1
}

# check_owners PATH: set sifmod_own_problem unless the open folder is what has this name, belongs to the user alone, and each folder above it
# belongs to root or to the user, and others can't write to it, or it has the sticky bit.
check_owners() {
    local path=$1 folder=${1%/*} owner mode index root=0 child first count
    local -a seen folders=()
    while [[ -n $folder ]]; do
        folders+=("$folder")
        folder=${folder%/*}
    done
    folders+=(/)
    # the folder that is open, the one that has the name, and those above it; a link counts as writable
    mapfile -t seen < <(stat -c '%u %a %d:%i' -- "/proc/self/fd/$sifmod_own/." "$path" "${folders[@]}" 2>/dev/null)
    wait "$!" || :
    if ((${#seen[@]} != ${#folders[@]} + 2)) || [[ ${seen[0]} != "${seen[1]}" ]]; then
        sifmod_own_problem="'$path' is a link, or was removed meanwhile"
        return 0
    fi
    # in a user namespace, what is root's outside belongs to the same number as what is another user's
    read -r first _ count </proc/self/uid_map
    if [[ $first-$count != 0-4294967295 ]]; then read -r root </proc/sys/kernel/overflowuid; fi
    read -r owner mode _ <<<"${seen[0]}"
    if [[ $owner != "$UID" ]]; then
        sifmod_own_problem="'$path' belongs to another user"
    elif ((0$mode & 077)); then
        sifmod_own_problem="'$path' is open to other users: remove it, or run chmod 700 on it"
    fi
    child=$owner
    for index in "${!folders[@]}"; do
        read -r owner mode _ <<<"${seen[index + 2]}"
        if [[ $owner != 0 && $owner != "$UID" && $owner != "$root" ]]; then
            sifmod_own_problem="'$path' is in '${folders[index]}', which belongs to another user"
        elif ((0$mode & 022 && !(0$mode & 01000))); then
            sifmod_own_problem="'$path' is in '${folders[index]}', where other users may rename it: that folder has no sticky bit"
        elif ((0$mode & 022)) && [[ $root != 0 && $child == "$root" ]]; then
            sifmod_own_problem="'$path' is below '${folders[index]}', in a folder of another user"
        fi
        child=$owner
    done
}

# lock_open DESCRIPTOR NAME: wait for the lock of an open folder or file; set sifmod_own_problem and fail if it can't be locked
lock_open() {
    local said
    said=$(LC_ALL=C flock "$1" 2>&1) || {
        sifmod_own_problem="'$2' can't be locked (${said:-"flock failed"})"
        return 1
    }
}

# close_files: leave only standard input, output and error open. Slurm and launchers wait until nobody has theirs open.
close_files() {
    local sifmod_file
    for sifmod_file in "/proc/$BASHPID/fd"/*; do
        sifmod_file=${sifmod_file##*/}
        if ((sifmod_file > 2 && sifmod_file != 255)); then exec {sifmod_file}>&-; fi
    done
}
