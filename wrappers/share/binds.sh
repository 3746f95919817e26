# Reads lists of bind paths for runtimes that do not know them: pyxis.sh and enroot.sh source it.
# shellcheck shell=bash disable=SC2034 # the arrays are for scripts that source this

# read_binds LIST: set sifmod_bind_sources, sifmod_bind_destinations and sifmod_bind_options to the bind paths of a list as Apptainer reads it: a backslash
# before a comma or a colon makes it part of a path, and what does not begin with a slash is one more option of the bind path before.
read_binds() {
    local text=$1, field='' char next i count=0
    local -a fields=()
    sifmod_bind_sources=() sifmod_bind_destinations=() sifmod_bind_options=()
    for ((i = 0; i < ${#text}; i += 1)); do
        char=${text:i:1}
        next=${text:i+1:1}
        case $char in
        \\)
            field+=$char
            if [[ $next == [,:] ]]; then
                field=${field%?}$next
                i=$((i + 1))
            fi
            ;;
        :)
            fields+=("$field")
            field=''
            ;;
        ,)
            fields+=("$field")
            field=''
            if [[ ${fields[0]} == /* ]]; then
                sifmod_bind_sources[count]=${fields[0]}
                sifmod_bind_destinations[count]=${fields[1]:-${fields[0]}}
                sifmod_bind_options[count]=${fields[2]-}
                count=$((count + 1))
            elif [[ -n ${fields[0]} ]] && ((count)); then
                sifmod_bind_options[count - 1]+=,${fields[0]}
            fi
            fields=()
            ;;
        *) field+=$char ;;
        esac
    done
}
