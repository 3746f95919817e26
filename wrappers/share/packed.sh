# Packed user software, and what is said where user software is gone or damaged: container.sh sources this, unless there is only a
# directory, and layers.sh.
# shellcheck shell=bash disable=SC2154 # those of values.sh and container.sh

# packed_is_whole: whether the readable packed file can be used.
packed_is_whole() {
    is_whole "$sifmod_packed" "$sifmod_packed_bind"
}

# is_whole FILE [BIND]: whether a readable packed file is as long as its superblock says. Reading the length takes two more
# processes; it is skipped if the loaded module has bound the file by BIND, because the module checked it.
is_whole() {
    local magic=${sifmod_packed_format[0]} length_at=${sifmod_packed_format[1]} least=${sifmod_packed_format[2]} begin length
    IFS= read -rd '' -n "${#magic}" begin <"$1" && [[ $begin == "$magic" ]] || return
    [[ -z ${2-} || ,${SINGULARITY_BINDPATH-}, != *,"$2",* ]] || return 0
    read -r length < <(od -An -t u8 -j "$length_at" -N 8 --endian=little -- "$1" 2>/dev/null) || return
    wait "$!" || :
    ((length >= least && length <= $(stat -Lc %s -- "$1")))
}

# bind_packed: add the bind path of user software to `binds`
bind_packed() {
    local problem=''
    if packed_is_active && ! [[ -r $sifmod_packed ]]; then
        problem=unreadable
    elif packed_is_active && ! packed_is_whole; then
        problem=damaged
    elif packed_is_active; then
        binds+=("$sifmod_packed_bind")
        if [[ ${SLURM_PROCID:-0} == 0 && ,${SINGULARITY_BINDPATH-}, == *,"$sifmod_directory_bind",* ]]; then
            more_values
            warn "${sifmod_said[stale]}"
        fi
    elif [[ -d $sifmod_directory ]]; then
        binds+=("$sifmod_directory_bind")
    else
        [[ ! -L $sifmod_directory ]] || die 126 "the user software is missing: '$sifmod_directory' is a link to '$(readlink -- "$sifmod_directory")', which does not exist."
        die_because 126 missing
    fi
    if [[ -n $problem ]]; then
        [[ -d $sifmod_directory ]] || die_because 126 "${problem}_alone"
        more_values
        warn "${sifmod_said[${problem}_beside_directory]}"
        binds+=("$sifmod_directory_bind")
    fi
}
