# Shared by the commands that change layers, which source it after packing.sh. Layers are the files 1.squashfs, 2.squashfs ... in one
# folder. The newest has the highest number, and is the first below the user's own software.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with those scripts

# newest_layer: print the path of the newest layer, without its ending; nothing if there is none.
newest_layer() {
    count_layers
    if ((sifmod_layer_count)); then printf '%s' "$layers/$sifmod_layer_count"; fi
}

# begin_layering: what each of the commands does first.
begin_layering() {
    if in_container; then
        die 1 "run this outside the container."
    fi
    require mksquashfs unsquashfs flock sha256sum
    require_write_permission
    take_lock
    clean_up_after_killed_runs
    settle_layers
    require_packed_file "$packed"
}

# put_layer NUMBER: make what is packed a layer too, with all that belongs to it. Until other user software is on top, it is there twice,
# which changes nothing for containers.
put_layer() {
    mkdir -p -- "$layers" 2>/dev/null || die 8 "'$layers' can't be made: not enough space, inodes or quota, or no permission. Nothing was changed."
    # a link: jobs whose bind list names the packed file keep it
    try ln -- "$packed" "$layers/$1.squashfs"
    if [[ -f $package_list ]]; then try cp -- "$package_list" "$layers/$1.txt"; fi
    # make-squashfs forgets the sums of earlier files
    if [[ -f $sums ]]; then try cp -- "$sums" "$layers/$1.sha256"; fi
    if [[ -f $previous ]]; then try mv -T -- "$previous" "$layers/$1.previous"; fi
}

# settle_layers: the newest layer is what is packed and in use: a command was killed before it put other user software on top, or after it
# has taken it away. Either way the layer is one no longer.
settle_layers() {
    local newest
    # flatten-layers was killed before or after it put the file of all layers into use, or --rollback before it took it away
    if packed_is_active && [[ -f $layers/top.squashfs ]]; then
        if [[ $layers/top.squashfs -ef $packed || -e $flattened ]]; then
            rm -f -- "$layers"/top.*
        else
            mv -T -- "$layers" "$flattened"
        fi
    fi
    newest=$(newest_layer)
    if [[ -z $newest ]] || ! packed_is_active || ! [[ $newest.squashfs -ef $packed ]]; then return; fi
    if [[ -f $newest.previous && ! -e $previous ]]; then mv -T -- "$newest.previous" "$previous"; fi
    if [[ -f $newest.txt ]]; then mv -T -- "$newest.txt" "$package_list"; fi
    rm -f -- "$newest.squashfs" "$newest.previous" "$newest.sha256"
    rm -d -- "$layers" 2>/dev/null || true
    if [[ ! -e $directory ]]; then rm -f -- "$unpacked_mark"; fi
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
        printf "%s: everybody may change '%s', and so run code as each user of the module. To end that: chmod o-w %s\n" "${0##*/}" "$1" "${1@Q}" >&2
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
        printf '  /user-layers/%s  %s\n' "$((number + 1))" "${sifmod_layer_files[number]}"
    done
    refresh_commands || true
    reload_hint
}
