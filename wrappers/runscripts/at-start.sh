# What runs at each start of a container that has layers or GPU support, on the node: bound as /.singularity.d/env/99-sifmod.sh, it is
# read by the runtime's own POSIX shell, and by with-environment. It starts no process. Programs search the layers too, the newest first:
# for commands after the user's own, and for other things before what is injected or the image sets. Libraries for GPUs are searched in
# this order: CUDA's compat libraries in the image, where they can be used, those of the host, and what else LD_LIBRARY_PATH has.
# shellcheck shell=sh

# The mount point of this file makes the folder in an image that has none. Then the runtime no longer does this, which it does for
# images of before Singularity 2.3 and for those that it has not built.
if [ ! -e /.singularity.d/env/99-base.sh ] && [ -n "${APPTAINER_CONTAINER-}${SINGULARITY_CONTAINER-}" ]; then
    if [ -f /environment ]; then
        # shellcheck disable=SC1091 # the image's
        . /environment
        PATH=$(fixpath) # a command of that shell
    fi
    # shellcheck disable=SC1091 # the runtime's: it has no file of this name
    if [ -n "${APPTAINER_CONTAINER-}" ]; then . /.inject-apptainer-env.sh; else . /.inject-singularity-env.sh; fi
fi
# in images of before Singularity 3 the runtime does this after it has read this file
if [ -n "${SING_USER_DEFINED_PREPEND_PATH-}" ]; then
    PATH=$SING_USER_DEFINED_PREPEND_PATH:$PATH
    unset SING_USER_DEFINED_PREPEND_PATH
fi

# sifmod_search FOLDER: set sifmod_path to this folder of each layer's virtual environment
sifmod_search() {
    sifmod_path=
    for sifmod_layer in /user-layers/[1-9]; do
        sifmod_path=$sifmod_path${sifmod_path:+:}$sifmod_layer/venv/${VIRTUAL_ENV##*/}$1
    done
}
if [ -d /user-layers ] && [ -n "${VIRTUAL_ENV-}" ]; then
    sifmod_search ''
    export CMAKE_PREFIX_PATH="$sifmod_path${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
    sifmod_search /share/jupyter
    export JUPYTER_PATH="$sifmod_path${JUPYTER_PATH:+:$JUPYTER_PATH}"
    sifmod_search /share/man
    # an empty entry stands for the places where man looks by itself
    export MANPATH="$sifmod_path:${MANPATH-}"
    sifmod_search /lib/pkgconfig
    export PKG_CONFIG_PATH="$sifmod_path${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    sifmod_own=:$VIRTUAL_ENV/bin:
    case :$PATH: in
    *"$sifmod_own"*)
        sifmod_search /bin
        PATH=:$PATH:
        PATH=${PATH%%"$sifmod_own"*}$sifmod_own$sifmod_path:${PATH#*"$sifmod_own"}
        PATH=${PATH#:}
        PATH=${PATH%:}
        ;;
    esac
fi

# CUDA's compat libraries are those of a newer driver: with them, newer CUDA runs on the driver of this node. Beside a driver that is not
# older they would end CUDA (error 803), and on cards that are not for data centres (804). `Vendor.compat_problem` in container/gpu.py
# has the same rules, and their sources. Names of the image's files are only matched, and taken if no part is special to ld.so.
sifmod_path=
sifmod_driver=
if [ "${SIFMOD_CUDA_COMPAT-}" != never ] && [ -f /proc/driver/nvidia/version ] && [ -r /proc/driver/nvidia/version ]; then
    # "... Kernel Module  535.104.05  ...", or "... Open Kernel Module for x86_64  580.82.07  ..."
    IFS= read -r sifmod_line </proc/driver/nvidia/version || :
    sifmod_line=${sifmod_line#*  }
    case $sifmod_line in
    [1-9][0-9][0-9].[0-9]*) sifmod_driver=${sifmod_line%%.*} ;;
    esac
fi
# the branch of the newest libraries that run on a driver of this branch
case $sifmod_driver in
520) sifmod_newest=525 ;;
450 | 510 | 515) sifmod_newest=530 ;;
525) sifmod_newest=550 ;;
470) sifmod_newest=570 ;;
560) sifmod_newest=575 ;;
565) sifmod_newest=580 ;;
550 | 575) sifmod_newest=590 ;;
535 | 570 | 580 | 590 | 595 | 610) sifmod_newest=999 ;;
*) sifmod_newest=0 ;;
esac
if [ "$sifmod_newest" -gt 0 ]; then
    sifmod_card=0
    for sifmod_file in /proc/driver/nvidia/gpus/*/information; do
        if [ ! -f "$sifmod_file" ] || [ ! -r "$sifmod_file" ]; then
            sifmod_newest=0
            break
        fi
        while IFS=' 	' read -r sifmod_word sifmod_line; do
            if [ "$sifmod_word" != Model: ]; then continue; fi
            # the branch of the last libraries that know this card
            case ${sifmod_line#NVIDIA } in
            Tesla\ K*) sifmod_card=470 ;;
            Tesla\ [MPV]* | [PV]100 | [PV]100[!0-9]* | P4 | P40) sifmod_card=580 ;;
            Tesla\ T* | [ABHL][0-9]* | G[BH][0-9]00* | T4) sifmod_card=999 ;;
            *) sifmod_card=0 ;;
            esac
            if [ "$sifmod_card" -lt "$sifmod_newest" ]; then sifmod_newest=$sifmod_card; fi
        done <"$sifmod_file"
    done
    if [ "$sifmod_card" -eq 0 ]; then sifmod_newest=0; fi
fi
if [ "$sifmod_newest" -gt 0 ]; then
    for sifmod_file in /usr/local/cuda*/compat/libcuda.so.* /usr/local/cuda*/compat/lib*/libcuda.so.*; do
        sifmod_word=${sifmod_file##*/libcuda.so.}
        sifmod_file=${sifmod_file%/*}
        case $sifmod_word:$sifmod_file in
        *[!0-9.]*:/* | *[!0-9A-Za-z_.:/-]* | *:*:* | *..*) ;;
        [1-9][0-9][0-9].[0-9]*)
            sifmod_word=${sifmod_word%%.*}
            if [ "$sifmod_word" -gt "$sifmod_driver" ] && [ "$sifmod_word" -le "$sifmod_newest" ] && [ -r "$sifmod_file/libcuda.so.1" ]; then
                sifmod_driver=$sifmod_word # of several, the newest
                sifmod_path=$sifmod_file
            fi
            ;;
        esac
    done
fi
# Triton asks the cache of the image's ld.so, which does not know the folder of `--nv`. The runtime's shell does not have what the user
# exported yet, and keeps what is set here: it lists these variables, one a line.
if [ -e /.singularity.d/libs/libcuda.so.1 ] && [ -z "${TRITON_LIBCUDA_PATH+x}" ]; then
    case "
${__exported_env__-}" in
    *"
TRITON_LIBCUDA_PATH="*) ;;
    *) export TRITON_LIBCUDA_PATH="${sifmod_path:-/.singularity.d/libs}" ;;
    esac
fi
# Apptainer puts this before all from 1.5 on, and other runtimes do not read it
if [ -n "${PREPEND_LD_LIBRARY_PATH-}" ]; then
    sifmod_path=$sifmod_path${sifmod_path:+:}$PREPEND_LD_LIBRARY_PATH
    unset PREPEND_LD_LIBRARY_PATH
fi
if [ -n "$sifmod_path" ]; then export LD_LIBRARY_PATH="$sifmod_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; fi

unset -f sifmod_search
unset sifmod_path sifmod_layer sifmod_own sifmod_driver sifmod_line sifmod_word sifmod_newest sifmod_card sifmod_file
