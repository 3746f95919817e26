# How the commands in bin/ start the container of their module, whose values are in runscripts/values.sh. They source this file, which
# finds out on the current node what the container needs, so the commands work with and without the module loaded. They run under
# `bash -p`, which ignores $BASH_ENV and functions of the caller's shell: these cost time, and may print something. Scripts that pass the user's
# arguments on source their first file with an empty word: without one, bash copies all arguments then, in a time by the square of their number.
# A variable that the user has exported stays exported when it is set here, and the container inherits it. So what is still set
# when the container starts has a name of our own.
# shellcheck shell=bash disable=SC2034,SC2154 # variables for scripts that source this; those of values.sh

# shellcheck source=../runscripts/values.sh
source "${BASH_SOURCE[0]%/*}/../runscripts/values.sh"
# the script of a runtime that starts no SIFs
sifmod_runtime_script=
sifmod_layer_binds=() sifmod_feature_binds=() sifmod_lent_binds=()

# die STATUS MESSAGE
die() {
    warn "$2"
    exit "$1"
}

# die_because STATUS KEY: die with one of the sentences of this installation
die_because() {
    more_values
    die "$1" "${sifmod_said[$2]}"
}

# warn MESSAGE
warn() {
    show "${0##*/}: ${1//$'\n'/?}"
}

# advise BIND|HOME FOLDER TEXT: print the text with the command that binds the folder too, or makes it the home, by the variable that counts where
# there are two. What no runtime can bind is in a folder above.
advise() {
    local variable=SINGULARITY_$1 folder=$2 apptainer
    while [[ $folder == *[,:\\^[:cntrl:]]* ]]; do folder=${folder%/*}; done
    apptainer=$(type -P apptainer) || true
    if [[ -v APPTAINER_$1 ]] || [[ ! -v SINGULARITY_$1 && $(type -P "$sifmod_runtime") -ef $apptainer ]]; then variable=APPTAINER_$1; fi
    folder=${folder:-/}
    if [[ $1 == BIND ]]; then folder=${!variable:+${!variable},}$folder; fi
    if [[ $folder == *[!a-zA-Z0-9@%+=:,./_-]* ]]; then folder="'${folder//\'/\'\\\'\'}'"; fi
    warn "$3 export $variable=$folder"
}

# show TEXT: print lines to standard error, without control characters: names in them may be somebody else's.
show() {
    local LC_ALL=C # ranges of bytes
    printf '%s\n' "${1//[$'\001'-$'\011\013'-$'\037\177']/?}" >&2
}

# more_values: read the values that few starts need
more_values() {
    # shellcheck source=../runscripts/more-values.sh
    [[ -v sifmod_said ]] || source "$sifmod_root/runscripts/more-values.sh"
}

in_container() {
    [[ -d /.singularity.d ]]
}

# A job that was submitted in a container starts on the host with that one's variables: the list of what it has bound, in which host
# paths are missing, and its search path.
if [[ -n ${SINGULARITY_ENVIRONMENT-} ]] && ! in_container; then
    PATH=${USER_PATH:+$USER_PATH:}$PATH
    unset USER_PATH {APPTAINER,SINGULARITY}_{APPNAME,BIND,COMMAND,CONTAINER,ENVIRONMENT,NAME}
    if [[ ${__SIFMOD_BIND-} ]]; then export {APPTAINER,SINGULARITY}_BIND="$__SIFMOD_BIND"; fi
    # those that features give to containers are gone in one, so that none applies yet
    if [[ ${__SIFMOD_FEATURES-} ]]; then export __SIFMOD_FEATURES="${__SIFMOD_FEATURES%%:*}:"; fi
fi

find_image() {
    if [[ -n $sifmod_runtime_script ]]; then
        sifmod_image=$sifmod_squashfs
        [[ -f $sifmod_image ]] || die_because 126 squashfs_is_gone
        return
    fi
    # an unpacked image is a directory
    if [[ ! -f $sifmod_image && ! -d $sifmod_image ]]; then
        source "$sifmod_root/share/central.sh"
        find_central_image
    fi
}

# find_home: set sifmod_home to the home of the container: what the user has chosen for the runtime, else that of the user database. Users
# export HOME to where there is space, which Apptainer does not take.
find_home() {
    if [[ -v sifmod_home ]]; then return; fi
    sifmod_home=${APPTAINER_HOME:-${SINGULARITY_HOME-}}
    if [[ -n $sifmod_runtime_script ]]; then sifmod_home=${HOME-}; fi
    if [[ -z $sifmod_home ]]; then
        local HOME # bash asks the database only if this is not set
        sifmod_home=~
    fi
    sifmod_home=${sifmod_home##*:} # of FOLDER:PLACE
    sifmod_home=${sifmod_home%/}
}

# name_home PATH: name HOME, if the path is below it and the container has another home
name_home() {
    if [[ -z ${HOME-} || $1/ != "${HOME%/}"/* ]] || { find_home && [[ $HOME -ef $sifmod_home/ ]]; }; then return 1; fi
    advise HOME "$HOME" "HOME is '$HOME', but the home of the container is '$sifmod_home'. To have yours there:"
}

# find_runtime: set sifmod_runtime to a command of the runtime that is on this node, and sifmod_runtime_script if it starts no SIFs
find_runtime() {
    if [[ -n $sifmod_squashfs ]]; then
        source "$sifmod_root/share/runtimes.sh"
        choose_runtime
        return
    fi
    for sifmod_runtime in "${sifmod_runtime_commands[@]}"; do
        if command -v "$sifmod_runtime" >/dev/null; then return; fi
    done
    die_because 127 runtime_is_missing
}

# lend uv|wheels: bind what the user has on the host, for a command that may install
lend() {
    source "$sifmod_root/share/lend.sh"
    "lend_$1"
}

packed_is_active() {
    [[ -f $sifmod_packed ]] && ! [[ -d $sifmod_directory && -e $sifmod_unpacked_mark ]]
}

may_have_layers() {
    [[ -n $sifmod_venv && (${#sifmod_bases[@]} -gt 0 || -e $sifmod_layers) ]]
}

inject_unless_set() {
    [[ -v SINGULARITYENV_$1 || -v APPTAINERENV_$1 ]] || export "SINGULARITYENV_$1=$2" "APPTAINERENV_$1=$2"
}

# expand_text TEXT: set sifmod_text to it with the values of the variables that are expanded
expand_text() {
    sifmod_text=$1
    if [[ $1 == *'$'* ]]; then
        source "$sifmod_root/share/expand.sh"
        expand_variables "$1"
    fi
}

# set_environment: set each variable of the container in both spellings, because APPTAINERENV_NAME overrides SINGULARITYENV_NAME.
set_environment() {
    local row
    unset "${sifmod_unset[@]/#/SINGULARITYENV_}" "${sifmod_unset[@]/#/APPTAINERENV_}"
    if ((${#sifmod_structural[@]})); then
        export "${sifmod_structural[@]/#/SINGULARITYENV_}" "${sifmod_structural[@]/#/APPTAINERENV_}"
    fi
    for row in "${sifmod_injected[@]}"; do inject_unless_set "${row%%=*}" "${row#*=}"; done
    set -- "${sifmod_proxies[@]}"
    while (($#)); do
        inject_unless_set "$1" "${!1-${!2-$3}}"
        shift 3
    done
    # The loaded module has set these, and the user may have changed or unset some since.
    if [[ ${CONTAINERROOT-} == "$sifmod_root" ]]; then return; fi
    for row in "${sifmod_exported[@]}"; do
        if [[ ! -v ${row%%=*} ]]; then
            expand_text "$row"
            export "${sifmod_text?}"
        fi
    done
}

# use_locales: C.UTF-8 instead of a locale that the image lacks: its programs would warn, and some would end
use_locales() {
    local name value
    for name in LANG "${!LC_@}"; do
        value=${!name-}
        case $value in *.UTF-8 | *.utf-8 | *.UTF8 | *.utf8) value=${value%.*}.utf8 ;; *) continue ;; esac
        if [[ " ${sifmod_locales[*]} " != *" $value "* ]]; then inject_unless_set "$name" C.UTF-8; fi
    done
}

set_binds() {
    local binds=("${sifmod_binds[@]}")
    set -- "${sifmod_optional_binds[@]}"
    while (($#)); do
        if [[ -e $1 ]]; then binds+=("$2"); fi
        shift 2
    done
    binds+=("${sifmod_feature_binds[@]}")
    if [[ -z $sifmod_venv ]]; then
        :
    elif [[ -d $sifmod_directory && ! -f $sifmod_packed ]]; then
        binds+=("$sifmod_directory_bind")
    else
        source "$sifmod_root/share/packed.sh"
        bind_packed
    fi
    binds+=("${sifmod_layer_binds[@]}" "${sifmod_lent_binds[@]}")
    # With a module loaded, BINDPATH is the module's list and what the user has added to it since, and SIFMOD_USER_BINDPATH is
    # what the user had set before.
    local users added loaded previous=''
    if [[ -z ${__SIFMOD_CONTAINER-} ]]; then
        users=${APPTAINER_BINDPATH-${SINGULARITY_BINDPATH-}}
    else
        users=${SIFMOD_USER_BINDPATH-}
        for added in "${SINGULARITY_BINDPATH-}" "${APPTAINER_BINDPATH-}"; do
            loaded=${__SIFMOD_BINDPATH-$added}
            if [[ -n $loaded ]]; then # empty for the module of a site without bind paths
                added=${added/",$loaded"/}
                added=${added/"$loaded,"/}
                added=${added/"$loaded"/}
            fi
            if [[ -n $added && $added != "$previous" ]]; then users+=${users:+,}$added; fi
            previous=$added
        done
    fi
    local IFS=,
    export SINGULARITY_BINDPATH="${binds[*]}${users:+,$users}"
    export APPTAINER_BINDPATH=$SINGULARITY_BINDPATH
    # for jobs that are submitted in the container, where the runtime has its own list in this variable
    unset __SIFMOD_BIND
    users=${APPTAINER_BIND-${SINGULARITY_BIND-}}
    if [[ $users ]]; then export __SIFMOD_BIND=$users; fi
}

# find_functions: set sifmod_without to a command that starts another one without the functions that shells of the host export, such as `which` of
# RHEL, whose options the image's lacks. `bash -p` does not read them, and passes them on.
find_functions() {
    local entry entries=()
    mapfile -d '' entries </proc/self/environ || return 0
    for entry in "${entries[@]}"; do
        if [[ $entry == BASH_FUNC_*=* ]]; then sifmod_without+=(-u "${entry%%=*}"); fi
    done
    if ((${#sifmod_without[@]})); then sifmod_without=(/usr/bin/env "${sifmod_without[@]}"); fi
}

# launch COMMAND [ARGUMENT...]: replace this process with the command in the container.
launch() {
    if in_container; then
        command -v -- "$1" >/dev/null || die 127 "you are inside another container, which has no '$1': exit it first."
        exec "$@"
    fi
    [[ ${PWD-} -ef . ]] || die 126 "the working directory, '${PWD-}', is gone, or was replaced by another: change to one that is there, such as with cd"
    find_runtime
    find_image
    set_environment
    if ((${#sifmod_locales[@]})); then use_locales; fi
    if may_have_layers; then
        source "$sifmod_root/share/layers.sh"
        find_layers
        [[ -z $sifmod_base_problem ]] || die 126 "$sifmod_base_problem"
    fi
    if ((${#sifmod_features[@]})); then
        source "$sifmod_root/share/features.sh"
        use_features
    fi
    set_binds
    source "$sifmod_root/share/paths.sh"
    look_at_paths "${@:1:51}"
    if ((${#sifmod_caches[@]})); then source "$sifmod_root/runscripts/caches.sh"; fi
    local sifmod_gpu_options=()
    if [[ -e $sifmod_gpu_device ]]; then
        if [[ -v sifmod_gpu_named ]]; then source "$sifmod_root/share/gpus.sh"; fi
        if ((! ${#sifmod_gpu_options[@]})); then export "SINGULARITY$sifmod_gpu_variable=1" "APPTAINER$sifmod_gpu_variable=1"; fi
    fi
    if [[ -n $sifmod_runtime_script ]]; then
        source "$sifmod_root/$sifmod_runtime_script"
        start_container "$@"
    fi
    # the search path of jobs that are submitted in the container, such as by a kernel of Jupyter, which has no module loaded
    if [[ :$PATH: != *:"$sifmod_root/bin":* && $sifmod_root != *:* ]]; then PATH=$sifmod_root/bin:$sifmod_root/user-bin:$PATH; fi
    local sifmod_options=()
    if [[ -n ${SIFMOD_RUNTIME_OPTIONS-} ]]; then
        read -ra sifmod_options <<<"$SIFMOD_RUNTIME_OPTIONS"
    fi
    local sifmod_without=()
    find_functions
    if [[ ${SIFMOD_SHARE_CONTAINER:-$sifmod_share_container} == @(true|1) ]]; then
        source "$sifmod_root/share/share-container.sh"
        share_container "$sifmod_launch" "$@"
    fi
    exec "${sifmod_without[@]}" "$sifmod_runtime" "$sifmod_launch" "${sifmod_gpu_options[@]}" "${sifmod_options[@]}" "$sifmod_image" "$@"
}

# launch_installer KIND COMMAND [ARGUMENT...]: launch python, pip or uv; if it may install or remove packages, refresh the commands after it.
# A word that only looks like that costs nothing but the refresh.
launch_installer() {
    local sifmod_kind=$1 sifmod_word
    shift
    if [[ "$sifmod_kind ${2-} ${3-}" == "python -m pip" ]]; then
        # the same as pip, which refuses what could not be used
        more_values
        set -- "$1" -I "${sifmod_inner[installers]}" pip "${@:4}"
        lend wheels
    elif [[ $sifmod_kind == python && "${2-} ${3-}" != "-m uv" ]]; then
        launch "$@"
    fi
    for sifmod_word in "${@:2}"; do
        case $sifmod_word in install | uninstall | sync | add | remove)
            source "$sifmod_root/share/user-commands.sh"
            launch_and_refresh "$@"
            ;;
        esac
    done
    launch "$@"
}
