# The commands of user software on the host: for each one a link in user-bin to share/user-command. Who changes user software
# sources this file after container.sh, and calls refresh_commands.
# shellcheck shell=bash disable=SC2154 # variables of container.sh

source "$sifmod_root/share/command.sh"
source "$sifmod_root/share/user-software.sh"

# refresh_commands: make a link for each command of the user software in use, and remove the links of others. What is no link to
# the launcher is left alone. If it fails it prints why, and returns an exit status as in refresh-commands --help.
refresh_commands() (
    describe_user_software
    LC_ALL=C # ranges of letters are those of ASCII
    if ! $sifmod_user_commands && [[ ! -d $commands ]]; then return 0; fi
    if [[ -L $commands || (-e $commands && ! -d $commands) ]]; then
        die 5 "'$commands' is not a directory: remove it, then run refresh-commands."
    fi
    if ! mkdir -p -- "$commands" 2>/dev/null || [[ ! -w $commands ]]; then
        die 9 "no permission to write to '$commands': the commands of user software were not refreshed."
    fi
    command -v flock >/dev/null || die 4 "'flock' (of util-linux) is not installed on this node; try a login node."
    if [[ -L $commands_lock || (-e $commands_lock && ! -f $commands_lock) ]]; then
        die 5 "'$commands_lock' is not a file: remove it, then run refresh-commands."
    fi
    # A group member with a stricter umask may have created the file: read permission is enough for the lock.
    { command exec {held}>>"$commands_lock"; } 2>/dev/null || { command exec {held}<"$commands_lock"; } 2>/dev/null ||
        die 9 "'$commands_lock' can't be opened: the commands of user software were not refreshed."
    said=$(LC_ALL=C flock --timeout 60 --conflict-exit-code 75 "$held" 2>&1) || case $? in
    75) die 7 "another refresh-commands is running: run it again later." ;;
    *) die 5 "'$commands_lock' can't be locked ($said): the commands of user software were not refreshed." ;;
    esac

    declare -A wanted=()
    if $sifmod_user_commands; then find_user_commands; fi
    put_links || die 5 "the commands of user software could not be refreshed in '$commands'."
    if ! $sifmod_user_commands; then
        rm -f -- "$commands_lock"
        rm -d -- "$commands" 2>/dev/null || true
    fi
)

# find_user_commands: set `wanted` to the names that get a link: commands of the virtual environment in use, except what every
# environment has, and what would hide a command of the module or one that scripts on the host need.
find_user_commands() {
    local target name status=1 entries=() links=() left=()
    declare -A hidden=() files=()
    for name in "${sifmod_host_commands[@]}" sifmod; do hidden[$name]=yes; done
    # after the pairs comes the status: that of wait is wrong (255) if the process ends meanwhile
    mapfile -d '' entries < <(trap 'printf "%s\0" "$?"' EXIT && list_environment)
    if ((${#entries[@]} % 2)); then
        status=${entries[-1]}
        unset 'entries[-1]'
    fi
    if ((status)); then exit "$status"; fi
    set -- "${entries[@]}"
    while (($#)); do
        target=$1 name=$2
        shift 2
        if [[ ! $name =~ ^[A-Za-z0-9][A-Za-z0-9._+-]*$ || $name =~ ^($sifmod_seeded_commands)$ ]]; then continue; fi
        if [[ -n ${hidden[$name]-} ]]; then
            left+=("$name")
            continue
        elif [[ -e $root/bin/$name || (-e $root/runscripts/$name && " ${sifmod_other_installers[*]} " != *" $name "*) ]]; then
            continue
        fi
        if [[ -z $target ]]; then files[$name]=yes wanted[$name]=yes; else links+=("$target" "$name"); fi
    done
    set -- "${links[@]}"
    while (($#)); do
        # other links may lead out of the environment
        if [[ -n ${files[$1]-} ]]; then wanted[$2]=yes; fi
        shift 2
    done
    if ((${#left[@]})); then
        warn "these commands stay the host's; to run those of user software: in-container NAME: ${left[*]}"
    fi
}

# list_packed FILE FOLDER: print target and name of each executable file and link in a folder of a packed file, each with a null
# character; the target of a file is empty.
list_packed() {
    local listing line mode path found=() entry='^[-bcdlps][-rwxsStT]{9} '
    command -v unsquashfs >/dev/null ||
        die 4 "'unsquashfs' (of squashfs-tools) is not installed on this node; run refresh-commands on a login node."
    listing=$(LC_ALL=C unsquashfs -lln "$1" "$2" 2>&1) || die 5 "the commands in '$1' can't be listed: ${listing##*$'\n'}"
    while IFS= read -r line; do
        # the rest of a name with a line break: what was before it is no name
        if [[ ! $line =~ $entry ]]; then
            found=()
            continue
        fi
        if ((${#found[@]})); then printf '%s\0%s\0' "${found[@]}"; fi
        found=()
        mode=${line%% *} path=${line#*" squashfs-root/$2/"}
        if [[ $path == "$line" ]]; then continue; fi
        case $mode in
        l*) found=("${path#*" -> "}" "${path%%" -> "*}") ;;
        -*[xs]*) found=('' "$path") ;;
        esac
    done <<<"$listing"
    if ((${#found[@]})); then printf '%s\0%s\0' "${found[@]}"; fi
}

# list_environment: print as `list_packed` does what is in the bin of the virtual environment in use, and in that of its layers.
list_environment() {
    local folder=venv/${venv##*/}/bin path
    find_layers 2>/dev/null
    for path in ${sifmod_layer_files[@]+"${sifmod_layer_files[@]}"}; do
        if [[ -d $path ]]; then
            list_directory "$path" "$folder"
        elif [[ -r $path ]] && is_whole "$path" -; then
            list_packed "$path" "$folder"
        fi
    done
    if packed_is_active; then
        list_packed "$packed" "$folder"
    else
        list_directory "$directory" "$folder"
    fi
}

# list_directory DIRECTORY FOLDER: print the same for a folder of a directory.
list_directory() {
    local path=$1 part
    for part in ${2//\// }; do
        path+=/$part
        if [[ -L $path ]]; then die 5 "'$path' is a symbolic link: commands in it can't be commands of the host."; fi
    done
    if [[ -d $path ]]; then
        find "$path" -mindepth 1 -maxdepth 1 \( -type f -perm /111 -o -type l \) -printf '%l\0%f\0'
    fi
}

# put_links: make the links in user-bin those of `wanted`, and say which new ones hide a command of the host.
put_links() {
    local name folder folders hides=() old=() present=()
    declare -A there=()
    mapfile -d '' present < <(find "$commands" -mindepth 1 -maxdepth 1 -type l -lname ../share/user-command -printf '%f\0')
    for name in "${present[@]}"; do
        there[$name]=yes
        if [[ -z ${wanted[$name]-} ]]; then old+=("$commands/$name"); fi
    done
    if ((${#old[@]})); then rm -f -- "${old[@]}" || return; fi
    IFS=: read -ra folders <<<"$PATH"
    for name in "${!wanted[@]}"; do
        if [[ -n ${there[$name]-} ]]; then continue; fi
        if [[ -e $commands/$name || -L $commands/$name ]]; then
            warn "'$commands/$name' is not a link of sifmod and was left alone."
            continue
        fi
        ln -sT -- ../share/user-command "$commands/$name" || return
        for folder in "${folders[@]}"; do
            if [[ $folder == /* && -f $folder/$name && -x $folder/$name && ! $folder -ef $commands ]]; then
                hides+=("$folder/$name")
                break
            fi
        done
    done
    if ((${#hides[@]})); then
        warn "with the module loaded, ${#hides[@]} command(s) of user software now come before the host's, such as '${hides[0]}': to run that one, type its path"
    fi
}

# launch_and_refresh COMMAND [ARGUMENT...]: run a command that changes user software, then refresh_commands, and exit with the
# command's status. If a signal ends this process, the guard ends the command: it reads a pipe that only this process holds.
launch_and_refresh() {
    if in_container || packed_is_active; then launch "$@"; fi
    # in somebody else's installation there is nothing to refresh
    if ! [[ -w $sifmod_root || -w $sifmod_root/user-bin ]]; then launch "$@"; fi
    exec {sifmod_guard}> >(
        exec >/dev/null 2>&1
        unset TMOUT # of a site that ends idle shells: read would not wait longer, and pip would be ended
        IFS= read -r command
        read -r || kill -TERM "$command"
    )
    sifmod_status=0
    (
        printf '%s\n' "$BASHPID" >&"$sifmod_guard"
        exec {sifmod_guard}>&-
        launch "$@"
    ) || sifmod_status=$?
    printf 'ended\n' >&"$sifmod_guard"
    exec {sifmod_guard}>&-
    refresh_commands || true
    exit "$sifmod_status"
}
