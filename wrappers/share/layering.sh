# Shared by the commands that pack or change layers, which source it after container.sh. Layers are the files 1.squashfs, 2.squashfs ...
# in one folder. The newest has the highest number, and is the first below the user's own software.
#
# Shells and jobs that have the module loaded name these files, and can't start a container without them. So a layer that is one no
# longer gets a mark, N.unused, and its name stays, for what is packed now: that takes no space, and has what they look for.
# Each file above the layers has its mark, at every moment.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with those scripts

source "$sifmod_root/share/packing.sh"

# newest_layer: print the path of the newest layer, without its ending; nothing if there is none.
newest_layer() {
    count_layers
    if ((sifmod_layer_count)); then printf '%s' "$layers/$sifmod_layer_count"; fi
}

# begin_layering: what each of the commands does first.
begin_layering() {
    local path
    require mksquashfs unsquashfs flock sha256sum
    require_write_permission
    take_lock
    for path in "$layers" "$flattened" "$removed"; do
        if [[ -L $path ]]; then die 5 "'$path' is a link, which is not followed: remove it, or put the folder that it leads to in its place."; fi
    done
    clean_up_after_killed_runs
    settle_layers
    require_packed_file "$packed"
    count_layers
    local next=$layers/$((sifmod_layer_count + 1))
    if [[ -f $next.txt && ! -e $next.squashfs && ! -f $next.unused ]]; then
        die 5 "'$next.squashfs' is gone, and '$next.txt' lists what was in it. Nothing was changed. Restore it from a backup. To do without it, remove that list."
    fi
}

# rename FROM TO: mv refuses two names of one file.
rename() {
    if [[ $1 -ef $2 ]]; then rm -f -- "$1"; else mv -T -- "$1" "$2"; fi
}

# put_layer NUMBER: make what is packed a layer too, with all that belongs to it. Until other user software is on top, it is there twice,
# which changes nothing for containers.
put_layer() {
    mkdir -p -- "$layers" 2>/dev/null || die 8 "'$layers' can't be made: not enough space, inodes or quota, or no permission. Nothing was changed."
    local ending
    # a link: jobs whose bind list names the packed file keep it
    try ln -- "$packed" "$temporary.squashfs"
    if [[ -f $package_list ]]; then try cp -- "$package_list" "$temporary.txt"; fi
    # make-squashfs forgets the sums of earlier files
    if [[ -f $sums ]]; then try cp -- "$sums" "$temporary.sha256"; fi
    begin_changes
    for ending in squashfs txt sha256; do
        if [[ -e $temporary.$ending ]]; then try rename "$temporary.$ending" "$layers/$1.$ending"; fi
    done
    try rm -f -- "$layers/$1.unused"
    if [[ -f $previous ]]; then try mv -T -- "$previous" "$layers/$1.previous"; fi
}

# renew_unused_layers: what is a layer no longer has the content that is packed now, and nothing beside it but its mark. If a link
# can't be made, the earlier content stays.
renew_unused_layers() {
    local name
    for name in "$layers"/[1-9].unused; do
        name=${name%.unused}
        if [[ ! -f $name.unused ]]; then continue; fi
        rm -f -- "$name.txt" "$name.sha256" "$name.previous" "$name.new" || true
        if [[ -f $packed && -f $name.squashfs && ! $name.squashfs -ef $packed ]]; then
            { ln -- "$packed" "$name.new" && mv -T -- "$name.new" "$name.squashfs"; } || true
        fi
    done 2>/dev/null
}

# settle_layers: bring to an end what a killed command began.
settle_layers() {
    local newest
    settle_flattening
    newest=$(newest_layer)
    # The newest layer is what is packed and in use: a command was killed before it put other user software on top, or after it has
    # taken it away. In both cases the newest layer is the packed file, not a layer.
    if [[ -n $newest ]] && packed_is_active && [[ $newest.squashfs -ef $packed ]]; then
        if [[ -f $newest.previous && ! -e $previous ]]; then try mv -T -- "$newest.previous" "$previous"; fi
        if [[ -f $newest.txt ]]; then try mv -T -- "$newest.txt" "$package_list"; fi
        try mark_unused "$newest"
        if [[ ! -e $directory ]]; then rm -f -- "$unpacked_mark"; fi
    fi
    renew_unused_layers
}

# settle_flattening: while a file of the folder of flattened layers is in the folder of layers too, flatten-layers or its --rollback was
# killed. What is packed tells which side was reached: all that is in the layers, or what was on top of them.
settle_flattening() {
    local number both=() other=0
    if [[ ! -f $flattened/top.squashfs ]] || ! packed_is_active; then return; fi
    for ((number = most_layers; number; number--)); do
        if [[ ! -e $flattened/$number.squashfs ]]; then continue; fi
        if [[ $flattened/$number.squashfs -ef $layers/$number.squashfs ]]; then both+=("$number"); else other=1; fi
    done
    if ((${#both[@]} == 0)); then return; fi
    if ! [[ $flattened/top.squashfs -ef $packed ]]; then
        for number in "${both[@]}"; do
            if [[ ! -f $layers/$number.unused ]]; then try mark_unused "$layers/$number"; fi
        done
    elif ((other == 0)); then
        if [[ -f $flattened/top.txt ]]; then try mv -T -- "$flattened/top.txt" "$package_list"; fi
        discard_flattened
    fi
}

# discard_flattened: remove the folder, whose files are in the folder of layers too; at once, for half of it would look like a whole one.
discard_flattened() {
    try mv -T -- "$flattened" "$root/.layering.flattened"
    remove_trees "$root/.layering.flattened" || true
}

# mark_unused NAME: what lies there is no longer a layer. A mark that was made before needs no space now.
mark_unused() {
    if [[ -n $temporary && -e $temporary.unused ]]; then
        mv -T -- "$temporary.unused" "$1.unused"
    else
        : >"$1.unused"
    fi
}

# begin_changes: a step that fails from now on leaves something behind.
begin_changes() {
    so_far="It was not finished. Run it again: that undoes or completes what was begun."
}

# require_no_directory WHAT: fail if an unused directory lies beside the packed file.
require_no_directory() {
    if [[ -e $directory ]]; then
        die 3 "'$directory' is still there, although what is packed is in use. To compare and remove it: make-squashfs --remove-directory. Then $1"
    fi
    [[ -d ${tree%/*} ]] || die 3 "'$directory' is a link to '$tree', and there is no folder '${tree%/*}'. Is its file system mounted?"
}

# warn_of_writers FILE: say if everybody on the machine may change what is to be a layer: Python runs code of it in each container.
warn_of_writers() {
    if [[ $(stat -Lc %A -- "$1") == ????????w? ]]; then
        warn "everybody may change '$1', and so run code as each user of the module. To end that: chmod o-w ${1@Q}"
    fi
}

# use_directory_from_now: with the mark, a directory is in use although there is a packed file. Without a directory it says nothing.
use_directory_from_now() {
    printf 'While this file and the directory exist, the directory is used, not the SquashFS file.\n' >"$temporary.unpacked"
    give_usual_mode "$temporary.unpacked"
    mv -T -- "$temporary.unpacked" "$unpacked_mark"
}

# report_layers: say what containers see now.
report_layers() {
    local number
    find_layers 2>/dev/null
    for number in "${!sifmod_layer_files[@]}"; do
        say '  /user-layers/%s  %s\n' "$((number + 1))" "${sifmod_layer_files[number]}"
    done
    refresh_commands || true
    reload_hint
}
