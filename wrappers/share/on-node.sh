# Places and processes of a user on a node. Names in /tmp, /dev/shm and the like can be guessed: other users may make what has them.
# shellcheck shell=bash disable=SC2034 # variables for scripts that source this

# The rule for folders is also in modulefiles/cache.lua, cache.tcl and host/owners.py; tests/unit/render/test_caches.py asks all.

# own_folder FOLDER [make]: open FOLDER as sifmod_own, and set sifmod_own_path to its path without links, if it is a folder of this user
# that is closed to others, and nobody else can put another in its place. Else set sifmod_own_problem and fail. Sets sifmod_own_made if it
# was missing. Use /proc/self/fd/$sifmod_own/NAME, or sifmod_own_path for other programs: nobody else can change where that leads.
own_folder() {
    local way top path=${1%/}
    sifmod_own='' sifmod_own_path='' sifmod_own_problem='' sifmod_own_made=''
    if [[ $path != /* || $path == *[[:cntrl:]]* || $path =~ /\.?\.?$ ]]; then
        sifmod_own_problem="${1@Q} is not the absolute path of a folder of yours"
        return 1
    fi
    find_way "$path"
    path=$sifmod_own_path
    if [[ ${2-} == make && ! -e $path && ! -L $path ]]; then
        look_at_way "$top" || return 1
        if mkdir -m 700 -- "$path" 2>/dev/null; then sifmod_own_made=yes; fi
    fi
    look_at_way "${#way[@]}" closed || return 1
    # with the slash, it does not wait at a pipe; a bare exec that fails would end a shell with POSIXLY_CORRECT
    if { command exec {sifmod_own}<"$path/"; } 2>/dev/null; then
        if [[ $path -ef /proc/self/fd/$sifmod_own ]]; then return 0; fi
        exec {sifmod_own}<&-
    fi
    sifmod_own=''
    refuse_folder unusable "$path"
}

# find_way FOLDER [BELOW...]: set `way` to the folders and links from / to FOLDER and to what is BELOW it, `top` to the index of FOLDER, and
# sifmod_own_path to its path without links.
find_way() {
    local rest=$1/ part target links=0 folder
    local -A seen=()
    way=() sifmod_own_path=''
    while [[ -n $rest ]]; do
        part=${rest%%/*} rest=${rest#*/}
        if [[ $part == .. ]]; then
            sifmod_own_path=${sifmod_own_path%/*}
        elif [[ $part != . && ($part || -z $sifmod_own_path) ]]; then
            way+=("$sifmod_own_path/$part")
            if [[ -L $sifmod_own_path/$part && -n $rest ]]; then
                if ((links++ == 40)); then break; fi
                target=$(readlink -- "$sifmod_own_path/$part") || :
                [[ $target != /* ]] || sifmod_own_path=''
                rest=$target/$rest
            else
                sifmod_own_path+=${part:+/$part}
            fi
        fi
    done
    top=$((${#way[@]} - 1))
    for folder in "${@:2}"; do
        part=$sifmod_own_path rest=$folder/
        while [[ -n $rest ]]; do
            part+=/${rest%%/*} rest=${rest#*/}
            [[ -n ${seen[$part]-} ]] || way+=("$part")
            seen[$part]=1
        done
    done
}

# find_outside: set `outside` to the number that all users without one in this user namespace have; 0 if this is not one of a container
find_outside() {
    local uid count
    outside=0
    read -r uid _ count </proc/self/uid_map 2>/dev/null || :
    if [[ ${uid:-0} != 0 || ${count:-4294967295} != 4294967295 ]]; then read -r outside </proc/sys/kernel/overflowuid || :; fi
}

# look_at_way COUNT [closed]: fail, and set sifmod_own_problem, if others could put their files into what `way` leads to, as far as its first
# COUNT parts tell. From the top down, each is root's or the user's, so that nobody else can replace the next one: if others may write to
# it, it has the sticky bit, and the next one is no link. From `top` on all are folders of the user's to which nobody else may write or, if
# closed, which nobody else may enter. In a user namespace all other owners look alike, root too: there the part below one that others may
# write to is the user's.
look_at_way() {
    local closed=${2-} index facts owner mode parent outside key=''
    local -A open=()
    if ! facts=$(stat -c '%u 0x%f' -- "${way[@]:0:$1}" 2>/dev/null); then
        refuse_folder unusable "${way[top]}"
        return
    fi
    find_outside
    # shellcheck disable=SC2086 # numbers
    set -- $facts
    for index in "${!way[@]}"; do
        if (($# == 0)); then return 0; fi
        owner=$1 mode=$2 parent=${way[index]%/*}
        shift 2
        if (((mode & 0170000) == 0120000)) && [[ $index -ge $top || -n ${open[${parent:-/}]-} ]]; then
            key='link'
        elif ((owner != EUID)) && { ((index >= top || (owner && owner != outside))) || [[ $owner != 0 && -n ${open[${parent:-/}]-} ]]; }; then
            key='foreign'
        elif (((mode & 0170000) == 0120000)); then
            continue
        elif (((mode & 0170000) != 0040000)) || [[ $index -ge $top && ! (-w ${way[index]} && -x ${way[index]}) ]]; then
            key='unusable'
        elif ((mode & 022)); then
            if ((index < top && mode & 01000)); then open[${way[index]}]=1; else key='shared'; fi
        elif [[ -n $closed ]] && ((index >= top && mode & 077)); then
            key='open'
        fi
        if [[ -n $key ]]; then
            refuse_folder "$key" "${way[index]}"
            return
        fi
    done
}

# refuse_folder WHY FOLDER: set sifmod_own_problem to a sentence, and fail. Modules and Python print the same: see site/cache.py.
refuse_folder() {
    sifmod_own_problem="'$2' "
    case $1 in
    'foreign') sifmod_own_problem+='belongs to another user, who could put other files there' ;;
    'shared') sifmod_own_problem+='can be written to by others, who could put other files there (chmod go-w, or chmod +t if they need it)' ;;
    'link') sifmod_own_problem+='is a link that is not followed: name the folder itself' ;;
    'open') sifmod_own_problem+='is open to other users: remove it, or run chmod 700 on it' ;;
    *) sifmod_own_problem+="can't be made (no space, or no permission), or is not a folder that you can write to" ;;
    esac
    return 1
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
