# Layers: packed user software below the user's own, of this installation and of those that it builds on. Sourced where there may be
# some, after container.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # variables for scripts that source this; those of values.sh

source "$sifmod_root/share/packed.sh"

# count_layers [FOLDER]: set sifmod_layer_count to the number of layers: packed user software below the user's own. What has a mark
# is none any longer; only bind lists of an earlier time name it.
count_layers() {
    local next=${1-$sifmod_layers}/1
    sifmod_layer_count=0
    while ((sifmod_layer_count < sifmod_most_layers)) && [[ -f $next.squashfs && ! -f $next.unused ]]; do
        ((sifmod_layer_count += 1))
        next=${next%/*}/$((sifmod_layer_count + 1))
    done
}

# warn_of_layer FILE KEY: say what is wrong with a layer
warn_of_layer() {
    more_values
    warn "$1 ${sifmod_layer_said[$2]}"
}

# list_layers ROOT: add the layers of an installation to sifmod_layer_files, the newest, which has the highest number, first. One
# whose list of packages is there without it is gone.
list_layers() {
    local sifmod_layer_count folder=$1/${sifmod_layers##*/} next
    count_layers "$folder"
    next=$folder/$((sifmod_layer_count + 1))
    if ((sifmod_layer_count < sifmod_most_layers)) && [[ -f $next.txt && ! -e $next.squashfs && ! -f $next.unused ]]; then
        warn_of_layer "$next.squashfs" layer_is_gone
    fi
    for (( ; sifmod_layer_count > 0; sifmod_layer_count--)); do sifmod_layer_files+=("$folder/$sifmod_layer_count.squashfs"); done
}

# list_base ROOT MESSAGE: add the user software of an installation that this one builds on, and its layers.
list_base() {
    local folder=$1/${sifmod_directory##*/} file=$1/${sifmod_packed##*/}
    if [[ -f $file ]] && ! { [[ -d $folder ]] && { [[ -e $1/${sifmod_unpacked_mark##*/} || ! -r $file ]] || ! is_whole "$file"; }; }; then
        sifmod_layer_files+=("$file")
    elif [[ -d $folder ]]; then
        sifmod_layer_files+=("$folder")
    else
        warn "$2"
    fi
    list_layers "$1"
}

# list_bases: what this module builds on, as long as its manifest says what it did when this module was installed. Sets
# sifmod_base_problem if no container can be started with it. A row of sifmod_bases has two lines of the manifest, and what is said if the
# Python or the environment is another one, and if the user software or all of it is gone.
list_bases() {
    local text root manifest python_line venv_line other_python other_venv is_missing is_gone
    sifmod_base_problem=
    set -- "${sifmod_bases[@]}"
    while (($#)); do
        root=$1 manifest=$2 python_line=$3 venv_line=$4 other_python=$5 other_venv=$6 is_missing=$7 is_gone=$8
        shift 8
        if [[ -f $manifest && -r $manifest ]]; then
            { text=$(head -c "$sifmod_most_manifest" -- "$manifest") || :; } 2>/dev/null
            if [[ $text != *"$python_line"* ]]; then
                sifmod_base_problem=$other_python
            else
                [[ $text == *"$venv_line"* ]] || warn "$other_venv"
                list_base "$root" "$is_missing"
            fi
        else
            warn "$is_gone"
        fi
    done
}

# find_layers: set sifmod_layer_files, the user software below the user's own, that directly below it first, and of those that can be
# used sifmod_layer_binds and sifmod_layer_folders.
find_layers() {
    local number=0 below file bind options source
    sifmod_layer_files=() sifmod_layer_binds=() sifmod_layer_folders=()
    list_layers "$sifmod_root"
    list_bases
    for file in "${sifmod_layer_files[@]}"; do
        ((number += 1))
        if ((number > sifmod_most_layers)); then
            warn_of_layer "$file" too_many_layers
            continue
        fi
        below=$sifmod_inner_layers/$number
        source=${file//,/\\,} options=ro
        if [[ -f $file ]]; then options=ro,image-src=/; fi
        bind=${source//:/\\:}:$below:$options
        if [[ -r $file ]] && { [[ -d $file ]] || is_whole "$file" "$bind"; }; then
            sifmod_layer_binds+=("$bind")
            sifmod_layer_folders+=("$below/venv/$sifmod_venv")
        else
            warn_of_layer "$file" layer_is_left_out
        fi
    done
    # what lets programs search them
    if ((${#sifmod_layer_binds[@]})) && [[ -n $sifmod_at_start ]]; then sifmod_layer_binds+=("$sifmod_at_start"); fi
}
