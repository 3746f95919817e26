# Values of Python/3.11-demo-singularity, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_module=Python/3.11-demo-singularity
sifmod_root=/apps/Python/3.11-demo-singularity
sifmod_env_name=PYTHON
sifmod_image=/apps/Python/3.11-demo-singularity/demo.sif
sifmod_squashfs=''
sifmod_central=()
sifmod_runtime_commands=(singularity apptainer)
sifmod_launch=exec
sifmod_share_container=false
sifmod_master_suffix=''
sifmod_binds=(/apps/Python/3.11-demo-singularity/runscripts:/runscripts:ro)
sifmod_optional_binds=()
sifmod_structural=(
    PIP_CONSTRAINT=/runscripts/pip-constraints.txt
    PREPEND_PATH=/runscripts:/user-software/venv/demo/bin UV_EXCLUDE=/runscripts/pip-constraints.txt
    VIRTUAL_ENV=/user-software/venv/demo 'VIRTUAL_ENV_PROMPT=(demo) '
    'WITH_CONDA_VENV=source /runscripts/init-conda-venv'
    'WITH_VENV=source /user-software/venv/demo/bin/activate'
)
sifmod_unset=(
    CONDA_DEFAULT_ENV CONDA_EXE CONDA_PREFIX CONDA_PROMPT_MODIFIER CONDA_PYTHON_EXE CONDA_SHLVL
    WITH_CONDA _CE_CONDA _CE_M
)
sifmod_injected=(JUPYTER_PREFER_ENV_PATH=1 PYTHONHOME= PYTHONNOUSERSITE=1 UV_LINK_MODE=copy)
sifmod_proxies=()
sifmod_exported=()
sifmod_locales=()
sifmod_image_python=/usr/bin/python3
sifmod_python=/user-software/venv/demo/bin/python
sifmod_gpu_device=''
sifmod_gpu_variable=''
sifmod_visible=()
sifmod_caches=()
sifmod_features=()
sifmod_directory=/apps/Python/3.11-demo-singularity/user-software
sifmod_packed=/apps/Python/3.11-demo-singularity/user-software.squashfs
sifmod_unpacked_mark=/apps/Python/3.11-demo-singularity/user-software.unpacked
sifmod_venv=demo
sifmod_packed_bind=/apps/Python/3.11-demo-singularity/user-software.squashfs:/user-software:ro,image-src=/
sifmod_venv_path=/user-software/venv/demo
sifmod_directory_bind=/apps/Python/3.11-demo-singularity/user-software:/user-software
sifmod_layers=/apps/Python/3.11-demo-singularity/user-software.layers
sifmod_at_start=/apps/Python/3.11-demo-singularity/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro
sifmod_bases=()

# the same in every installation
