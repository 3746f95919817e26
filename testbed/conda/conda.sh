# shellcheck shell=dash
# The shell side of conda, cut down to activation: it evaluates what "conda shell.posix activate" prints.
export CONDA_EXE='/opt/miniconda3/bin/conda'
export _CE_M=''
export _CE_CONDA=''
export CONDA_PYTHON_EXE='/opt/miniconda3/bin/python'

conda() {
    case "${1-}" in
        activate)
            local ask_conda
            ask_conda="$(PS1="${PS1:-}" "$CONDA_EXE" shell.posix "$@")" || return
            eval "$ask_conda"
            hash -r
            ;;
        *) "$CONDA_EXE" "$@" ;;
    esac
}

if [ -z "${CONDA_SHLVL+x}" ]; then
    export CONDA_SHLVL=0
    # shellcheck disable=SC2123
    PATH="/opt/miniconda3/condabin${PATH:+":${PATH}"}"
    export PATH
    # not allowed to be unbound
    if [ -z "${PS1+x}" ]; then
        PS1=
    fi
fi
