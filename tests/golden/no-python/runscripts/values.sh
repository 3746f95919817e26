# Values of GROMACS/2024.1, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_module=GROMACS/2024.1
sifmod_root=/apps/GROMACS/2024.1
sifmod_env_name=GROMACS
sifmod_image=/apps/GROMACS/2024.1/gromacs.sif
sifmod_squashfs=''
sifmod_central=()
sifmod_runtime_commands=(singularity apptainer)
sifmod_launch=exec
sifmod_share_container=false
sifmod_master_suffix=''
sifmod_binds=(/apps/GROMACS/2024.1/runscripts:/runscripts:ro)
sifmod_optional_binds=()
sifmod_structural=(PREPEND_PATH=/runscripts)
sifmod_unset=(
    CONDA_DEFAULT_ENV CONDA_EXE CONDA_PREFIX CONDA_PROMPT_MODIFIER CONDA_PYTHON_EXE CONDA_SHLVL
    PIP_CONSTRAINT UV_EXCLUDE VIRTUAL_ENV VIRTUAL_ENV_PROMPT WITH_CONDA WITH_CONDA_VENV WITH_VENV
    _CE_CONDA _CE_M
)
sifmod_injected=()
sifmod_proxies=()
sifmod_exported=()
sifmod_locales=()
sifmod_image_python=''
sifmod_python=''
sifmod_gpu_device=''
sifmod_gpu_variable=''
sifmod_visible=()
sifmod_caches=()
sifmod_features=()
sifmod_directory=/apps/GROMACS/2024.1/user-software
sifmod_packed=/apps/GROMACS/2024.1/user-software.squashfs
sifmod_unpacked_mark=/apps/GROMACS/2024.1/user-software.unpacked
sifmod_venv=''
sifmod_packed_bind=''

# the same in every installation
