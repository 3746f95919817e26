# Variables in values of other variables: container.sh sources this if a value has a dollar sign.
# shellcheck shell=bash disable=SC2034,SC2154 # variables of container.sh

# expand_variables TEXT: set sifmod_text to it with the values of the variables that are expanded, for $NAME and ${NAME}. Any other
# dollar sign stays.
expand_variables() {
    local LC_ALL=C IFS='|' rest=$1 names name # ranges of letters are those of ASCII
    names="${sifmod_expanded[*]}" sifmod_text=
    while [[ $rest == *'$'* ]]; do
        sifmod_text+=${rest%%'$'*} rest=${rest#*'$'}
        if [[ $rest =~ ^($names)([^A-Za-z0-9_]|$) ]]; then
            name=${BASH_REMATCH[1]} rest=${rest#"${BASH_REMATCH[1]}"}
        elif [[ $rest =~ ^\{($names)\} ]]; then
            name=${BASH_REMATCH[1]} rest=${rest#"${BASH_REMATCH[0]}"}
        else
            sifmod_text+='$'
            continue
        fi
        sifmod_text+=${!name-}
    done
    sifmod_text+=$rest
}
