# What runs at each start of a container that has layers, on the node: bound as /.singularity.d/env/99-sifmod.sh, it is read by the
# runtime's own POSIX shell, and by with-environment. Programs search the layers too, the newest first: for commands after the user's
# own, and for other things before what is injected or the image sets.
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
unset -f sifmod_search
unset sifmod_path sifmod_layer sifmod_own
