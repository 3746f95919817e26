# The caches of a site: container.sh and the runscripts source this after values.sh, if the site has some.
# shellcheck shell=bash disable=SC2154 # those of values.sh

# shellcheck source=on-node.sh
source "${BASH_SOURCE[0]%/*}/on-node.sh"

# make_private ROOT FOLDER...: make what is missing of ROOT and the FOLDERs below it, for the user alone; set sifmod_own_problem if others
# could put their files there.
make_private() {
    local way top folder missing=() there=0 sifmod_own_path
    find_way "$@"
    for folder in "${way[@]}"; do
        if [[ -e $folder || -L $folder ]]; then there=$((there + (${#missing[@]} == 0))); else missing+=("$folder"); fi
    done
    if ((${#missing[@]})); then
        look_at_way "$there" || return 0
        mkdir -m 700 -- "${missing[@]}" 2>/dev/null || :
    fi
    look_at_way "${#way[@]}" || :
}

# use_caches: point variables at folders below the site's root for caches, which is resolved on the node where this runs. What the
# user, the image or another setting has set is kept; what the loaded module has set is not, because it was resolved elsewhere. If
# the root can't be used, programs use their defaults. Others could put code into a cache, so the folders must be the user's.
# A container with a user namespace can't tell other users from root, and uses no root that was refused on the host.
use_caches() {
    local variables=("${sifmod_caches[@]%%=*}") folders=("${sifmod_caches[@]#*=}") root=''
    local loaded=${__SIFMOD_CACHE-} unclean='//|/\.\.?/|[[:cntrl:]]' sifmod_own_problem='' index variable outside
    for index in "${!variables[@]}"; do
        variable=${variables[index]}
        if [[ -n $loaded && ${!variable-} == "$loaded/${folders[index]}" ]]; then
            unset "$variable"
        elif [[ -v $variable || -v SINGULARITYENV_$variable || -v APPTAINERENV_$variable ]]; then
            unset "variables[index]" "folders[index]"
        fi
    done
    if ((${#variables[@]} == 0)); then return 0; fi
    set -- "${sifmod_cache_parts[@]}"
    while (($#)); do
        root+=$1
        if [[ -n $2 ]]; then
            if [[ -z ${!2-} ]]; then sifmod_own_problem=${sifmod_own_problem:-$2 is not set}; else root+=${!2}; fi
        fi
        shift 2
    done
    if [[ -n $sifmod_own_problem ]]; then
        :
    elif [[ $root != /* || $root/ =~ $unclean ]]; then
        sifmod_own_problem="its path is not absolute here, or has '//', '.' or '..' in it"
    else
        if [[ ${__SIFMOD_CACHE_REFUSED-} == "$root" ]]; then
            find_outside
            if ((outside)); then return 0; fi
        fi
        unset __SIFMOD_CACHE_REFUSED
        make_private "$root" "${folders[@]}"
        [[ -z $sifmod_own_problem ]] || export __SIFMOD_CACHE_REFUSED=$root
    fi
    if [[ -n $sifmod_own_problem ]]; then
        [[ ${SLURM_LOCALID:-0} != 0 ]] ||
            printf '%s: %s, so caches are in their default places. The site has them in %s\n' "${0##*/}" "$sifmod_own_problem" "$sifmod_cache_root" >&2
        return 0
    fi
    for index in "${!variables[@]}"; do
        export "${variables[index]}=$root/${folders[index]}"
    done
}
use_caches
