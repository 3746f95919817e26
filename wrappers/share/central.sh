# The image of an installation that has none of its own: container.sh sources this.
# shellcheck shell=bash disable=SC2034,SC2154 # variables of container.sh

# find_central_image: set sifmod_image to the first of the site's copies
find_central_image() {
    set -- "${sifmod_central[@]}"
    while (($#)); do
        if is_copy "$1" "$2" "$3"; then
            sifmod_image=$1
            return
        fi
        shift 3
    done
    die_because 126 image_is_gone
}

# is_copy PATH SIZE ID: whether this file has the size of the image and the identifier in its header. Reading all of it would take
# minutes: the install and sifmod verify do. Size 0: any file will do.
is_copy() {
    local id
    if [[ ! -f $1 ]] || (($2 && $(stat -Lc %s -- "$1") != $2)); then return 1; fi
    if (($2 == 0)) || [[ -z $3 ]]; then return 0; fi
    more_values
    id=$(od -An -v -t x1 -j "${sifmod_image_header[0]}" -N "${sifmod_image_header[1]}" -- "$1")
    [[ ${id//[[:space:]]/} == "$3" ]]
}
