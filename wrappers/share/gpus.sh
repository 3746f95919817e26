# Sourced by container.sh on nodes with GPUs that the site gives to containers by name (CDI): sets sifmod_gpu_options, and leaves it
# empty where the runtime has no option for that.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with values.sh and container.sh

if [[ -z $sifmod_runtime_script ]]; then
    sifmod_version=$("$sifmod_runtime" --version 2>/dev/null) || sifmod_version=
    for sifmod_release in "${sifmod_gpu_named[@]:1}"; do # such as `apptainer 1.5`
        if [[ $sifmod_version =~ ^"${sifmod_release% *}"\ version\ ([0-9]{1,6})\.([0-9]{1,6}) ]]; then
            sifmod_first=${sifmod_release#* }
            if ((10#${BASH_REMATCH[1]} * 1000000 + 10#${BASH_REMATCH[2]} >= ${sifmod_first%.*} * 1000000 + ${sifmod_first#*.})); then
                sifmod_gpu_options=(--device "${sifmod_gpu_named[0]}")
            fi
        fi
    done
fi
