# The caches of a site: container.sh and the runscripts source this after values.sh, if the site has some.
# shellcheck shell=bash disable=SC2154 # those of values.sh

# find_way ROOT FOLDER...: set `way` to the folders and links from / to ROOT and to the FOLDERs below it, and `top` to the index of ROOT.
find_way() {
    local rest=$1/ done='' part target links=0 folder
    local -A looked_at=()
    way=()
    while [[ -n $rest ]]; do
        part=${rest%%/*} rest=${rest#*/}
        if [[ $part == .. ]]; then
            done=${done%/*}
        elif [[ $part != . && ($part || -z $done) ]]; then
            way+=("$done/$part")
            if [[ -L $done/$part && -n $rest ]] && ((links++ < 40)); then
                target=$(readlink -- "$done/$part") || :
                [[ $target != /* ]] || done=''
                rest=$target/$rest
            else
                done+=${part:+/$part}
            fi
        fi
    done
    top=$((${#way[@]} - 1))
    for folder in "${@:2}"; do
        part=$done rest=$folder/
        while [[ -n $rest ]]; do
            part+=/${rest%%/*} rest=${rest#*/}
            [[ -n ${looked_at[$part]-} ]] || way+=("$part")
            looked_at[$part]=1
        done
    done
}

# refuse_cache KEY [PATH]: set `problem` to a sentence
refuse_cache() {
    # shellcheck source=more-values.sh
    [[ -v sifmod_cache_said ]] || source "${BASH_SOURCE[0]%/*}/more-values.sh"
    problem=${2:+"'$2' "}${sifmod_cache_said[$1]}
}

# look_at_way COUNT: set `problem` if others could put their files into what `way` leads to, as far as its first COUNT parts tell. From
# the top down, each is root's or the user's, so that nobody else can replace the next one: if others may write to it, it has the sticky
# bit, and the next one is no link. From `top` on all are folders of the user's to which nobody else may write. In a user namespace all
# other owners look alike, root too: there the part below one that others may write to is the user's.
look_at_way() {
    local index facts owner mode parent uid count roots=0 key=''
    local -A open=()
    if ! facts=$(stat -c '%u 0x%f' -- "${way[@]:0:$1}" 2>/dev/null); then
        refuse_cache unusable "${way[top]}"
        return
    fi
    read -r uid _ count </proc/self/uid_map 2>/dev/null || :
    if [[ ${uid:-0} != 0 || ${count:-4294967295} != 4294967295 ]]; then read -r roots </proc/sys/kernel/overflowuid || :; fi
    # shellcheck disable=SC2086 # numbers
    set -- $facts
    for index in "${!way[@]}"; do
        if (($# == 0)); then return; fi
        owner=$1 mode=$2 parent=${way[index]%/*}
        shift 2
        if (((mode & 0170000) == 0120000)) && [[ $index -ge $top || -n ${open[${parent:-/}]-} ]]; then
            key='link'
        elif ((owner != EUID)) && { ((owner != roots || index >= top)) || [[ $roots != 0 && -n ${open[${parent:-/}]-} ]]; }; then
            key='foreign'
        elif (((mode & 0170000) == 0120000)); then
            continue
        elif (((mode & 0170000) != 0040000)) || [[ $index -ge $top && ! (-w ${way[index]} && -x ${way[index]}) ]]; then
            key='unusable'
        elif ((mode & 022)); then
            if ((index < top && mode & 01000)); then open[${way[index]}]=1; else key='shared'; fi
        fi
        if [[ -n $key ]]; then
            refuse_cache "$key" "${way[index]}"
            return
        fi
    done
}

# make_private ROOT FOLDER...: make what is missing of ROOT and the FOLDERs below it, for the user alone; set `problem` if others could
# put their files there.
make_private() {
    local way top folder missing=() there=0
    find_way "$@"
    for folder in "${way[@]}"; do
        if [[ -e $folder || -L $folder ]]; then there=$((there + (${#missing[@]} == 0))); else missing+=("$folder"); fi
    done
    if ((${#missing[@]})); then
        look_at_way "$there"
        if [[ -n $problem ]]; then return; fi
        mkdir -m 700 -- "${missing[@]}" 2>/dev/null || :
    fi
    look_at_way "${#way[@]}"
}

# use_caches: point variables at folders below the site's root for caches, which is resolved on the node where this runs. What the
# user, the image or another setting has set is kept; what the loaded module has set is not, because it was resolved elsewhere. If
# the root can't be used, programs use their defaults. Others could put code into a cache, so the folders must be the user's.
use_caches() {
    local variables=("${sifmod_caches[@]%%=*}") folders=("${sifmod_caches[@]#*=}") root=''
    local loaded=${__SIFMOD_CACHE-} unclean='//|/\.\.?/|[[:cntrl:]]' problem='' index variable
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
            if [[ -z ${!2-} ]]; then problem=${problem:-$2 is not set}; else root+=${!2}; fi
        fi
        shift 2
    done
    if [[ -n $problem ]]; then
        :
    elif [[ $root != /* || $root/ =~ $unclean ]]; then
        refuse_cache unclean
    else
        make_private "$root" "${folders[@]}"
    fi
    if [[ -n $problem ]]; then
        [[ ${SLURM_LOCALID:-0} != 0 ]] ||
            printf '%s: %s, so caches are in their default places. The site has them in %s\n' "${0##*/}" "$problem" "$sifmod_cache_root" >&2
        return 0
    fi
    for index in "${!variables[@]}"; do
        export "${variables[index]}=$root/${folders[index]}"
    done
}
use_caches
