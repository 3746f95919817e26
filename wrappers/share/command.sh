# What the commands that users type on the host begin with, after container.sh.
# shellcheck shell=bash disable=SC2154 # self is of the commands

# begin_command ARGUMENT...: show the usage, which is the comment at the head of a command, if it is asked for; fail in a container
begin_command() {
    local argument
    for argument; do
        if [[ $argument == --help || $argument == -h ]]; then
            show_usage
            exit
        fi
    done
    # in one that is gone, each program that is started warns
    if ! [[ ${PWD-} -ef . ]]; then cd / 2>/dev/null; fi
    if in_container; then die 1 "run this outside the container."; fi
}

show_usage() {
    local text
    IFS= read -rd '' text <"$self" || :
    text=${text#*$'\n# Usage'} text=Usage${text%%$'\nset -e'*}
    text=${text//$'\n# '/$'\n'}
    printf '%s\n' "${text//$'\n#\n'/$'\n\n'}"
}

unknown_argument() {
    die 1 "unknown argument '$1'; see ${0##*/} --help."
}

# with_progress WHAT SIZE COMMAND [ARGUMENT...]: in a command substitution, become a program, and say on standard error, or on `screen`, how
# far it is: on a terminal by a line that changes, from two seconds on; elsewhere by a line a minute. SIZE is in bytes of what it reads,
# or of what it writes if that is more; 0 if nobody knows it, or if the program's own reading and writing says nothing. What tells it
# ends with the program, which has its pipe, and has the substitution wait, so that no line comes later.
with_progress() {
    local telling
    # not a child of the tool, which may wait for its children
    exec {telling}> >(report_progress "$1" "$2" <&0 &)
    wait "$!" || :
    printf '%s\n' "$BASHPID" >&"$telling"
    if [[ -n ${screen-} ]]; then exec {screen}>&-; fi
    exec "${@:3}"
}

# report_progress WHAT SIZE: read the number of a process, and say how far it is until the input ends
report_progress() {
    local size=$2 worker='' status every=60 line shown=false begun=$SECONDS name count reached
    if [[ -n ${screen-} ]]; then exec 2>&"$screen" {screen}>&-; fi
    if [[ -t 2 ]]; then every=2; fi
    while true; do
        status=0
        read -r -t "$every" line || status=$?
        if ((status == 0)); then
            worker=$line
            continue
        elif ((status <= 128)); then
            break
        fi
        reached=0
        while ((size)) && read -r name count; do
            if [[ $name == [rw]char: && $count =~ ^[0-9]+$ ]] && ((count > reached)); then reached=$count; fi
        done 2>/dev/null <"/proc/$worker/io" || :
        say_progress "$1" $((reached >> 20)) $((size >> 20)) ' MiB' $((SECONDS - begun))
        shown=true
        if [[ -t 2 ]]; then every=1; fi
    done
    if $shown; then clear_progress; fi
}

# say_progress WHAT REACHED SIZE UNIT SECONDS: on a terminal, instead of the line before
say_progress() {
    local text left
    printf -v text '%d:%02d passed' $(($5 / 60)) $(($5 % 60))
    if (($2 && $2 < $3)); then
        left=$((($3 - $2) * $5 / $2))
        printf -v text '%d of %d%s, %d:%02d left' "$2" "$3" "$4" $((left / 60)) $((left % 60))
    fi
    if [[ -t 2 ]]; then printf '\r\e[K%s: %s' "$1" "$text" >&2; else printf '%s: %s\n' "$1" "$text" >&2; fi
}

# clear_progress: take the line from the terminal
clear_progress() {
    if [[ -t 2 ]]; then printf '\r\e[K' >&2; fi
}
