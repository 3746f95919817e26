# What the host lends to commands that install: container.sh sources this for them.
# shellcheck shell=bash disable=SC2034,SC2154 # variables of container.sh and values.sh

more_values

# lend_uv: bind the uv of the host, for a container that has none. A script, such as another module's wrapper, is not the program.
lend_uv() {
    local candidate magic
    while IFS= read -r candidate; do
        if [[ $candidate == /* && $candidate != *[,:\\]* ]] && IFS= read -rd '' -n 4 magic <"$candidate" && [[ $magic == $'\x7fELF' ]]; then
            sifmod_lent_binds+=("$candidate:${sifmod_inner[uv]}:ro")
            break
        fi
    done < <(type -ap uv)
    wait "$!" || :
}

# lend_wheels: bind the wheels that "sifmod build-wheel" has made for this module, unless others could put theirs there
lend_wheels() {
    local folder=${HOME-}/${sifmod_inner[wheels_at_home]}/$sifmod_module
    if in_container || [[ ! -d $folder ]]; then return; fi
    source "$sifmod_root/share/on-node.sh"
    if own_folder "$folder"; then
        exec {sifmod_own}<&-
        if [[ $sifmod_own_path == *[,:\\]* ]]; then return; fi
        sifmod_lent_binds+=("$sifmod_own_path:${sifmod_inner[wheels]}:ro")
    else
        warn "the wheels that you have built are left out: $sifmod_own_problem"
    fi
}
