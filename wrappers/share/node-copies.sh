# Copies of the image and of packed user software on a node, for one job: broadcast-image makes them, and container.sh, which
# sources this, uses those that are still what it made. A copy was read and compared on its node when it was made. A start looks
# at its size, time and inode only, which are in the record beside it.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are those of container.sh

# shellcheck source=on-node.sh
source "${BASH_SOURCE[0]%/*}/on-node.sh"

# states PATH...: set `states` to size, time of the last change and inode of each
states() {
    states=$(stat -Lc '%s %Y %i' -- "$@" 2>/dev/null) || return
    states=${states//$'\n'/ }
}

# sha256_of FILE: set `sum` to its SHA-256. The host's openssl uses the processor's instructions for it; the sha256sum of many
# distributions does not, and takes three times as long or more.
sha256_of() {
    sum=
    if [[ -x /usr/bin/openssl ]]; then sum=$(/usr/bin/openssl dgst -sha256 -r <"$1" 2>/dev/null) || sum=; fi
    if [[ ! $sum =~ ^[0-9a-f]{64}[[:space:]] ]]; then sum=$(sha256sum <"$1") || return; fi
    sum=${sum%% *}
}

# find_copy SOURCE SHA256: set `copy` to the copy of a file on this node, or to what is wrong with it in `problem`; neither is set
# if there is none. Without a SHA256, accept any verified copy: its record names the source file.
find_copy() {
    local record='' states
    copy=$sifmod_copies/${1##*/} problem=''
    if [[ ! -e $copy && ! -L $copy ]]; then
        copy=
        return
    fi
    if [[ -L $copy || ! -f $copy || ! -O $copy ]]; then
        problem="it is not a plain file of yours"
    elif ! { IFS= read -r record <"$copy.record"; } 2>/dev/null || ! states "$copy" "$1"; then
        problem="it was not compared to the end"
    elif [[ ${record#* } != "${states% * * *} "* ]]; then
        problem="it is damaged, or was changed: run broadcast-image again"
    elif [[ ${record#* } != "$states" ]]; then
        problem="'$1' has changed since: run broadcast-image again"
    elif [[ $2 && ${record%% *} != "$2" ]]; then
        problem="it is of another image: run broadcast-image again"
    fi
    if [[ -n $problem ]]; then
        problem="'$copy' is not used: $problem"
        copy=
    fi
}

# use_node_copies: take the copies of this node, if they can be used; if not, the first task of the node says why
use_node_copies() {
    local copy problem sifmod_own sifmod_own_problem
    if ! own_folder "$sifmod_copies"; then
        say_on_node "copies are not used: $sifmod_own_problem"
        return
    fi
    exec {sifmod_own}<&- # nobody else can put another in its place
    find_copy "$sifmod_image" "$sifmod_image_sha256"
    if [[ -n $copy ]]; then sifmod_image=$copy; fi
    if [[ -n $problem ]]; then say_on_node "$problem"; fi
    if [[ -n $sifmod_packed_bind ]] && packed_is_active; then
        find_copy "$sifmod_packed" ''
        sifmod_packed_copy=$copy
        if [[ -n $problem ]]; then say_on_node "$problem"; fi
    fi
}

say_on_node() {
    if [[ ${SLURM_LOCALID:-0} == 0 ]]; then
        printf '%s: on %s, %s\n' "${0##*/}" "${SLURMD_NODENAME:-this node}" "$1" >&2
    fi
}
