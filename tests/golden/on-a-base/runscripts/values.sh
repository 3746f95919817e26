# Values of Mine/1, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_module=Mine/1
sifmod_root=/home/me/Mine/1
sifmod_env_name=MINE
sifmod_image=/home/me/Mine/1/demo.sif
sifmod_squashfs=''
sifmod_central=()
sifmod_runtime_commands=(singularity apptainer)
sifmod_launch=exec
sifmod_share_container=false
sifmod_master_suffix=''
sifmod_binds=(/home/me/Mine/1/runscripts:/runscripts:ro)
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
sifmod_directory=/home/me/Mine/1/user-software
sifmod_packed=/home/me/Mine/1/user-software.squashfs
sifmod_unpacked_mark=/home/me/Mine/1/user-software.unpacked
sifmod_venv=demo
sifmod_packed_bind=/home/me/Mine/1/user-software.squashfs:/user-software:ro,image-src=/
sifmod_venv_path=/user-software/venv/demo
sifmod_directory_bind=/home/me/Mine/1/user-software:/user-software
sifmod_layers=/home/me/Mine/1/user-software.layers
sifmod_at_start=/home/me/Mine/1/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro
sifmod_bases=(
    '/projects/it'"'"'s, [x]' '/projects/it'"'"'s, [x]/share/sifmod.json'
    '
  "python_version": "3.11",
' '
  "venv": "demo",
'
    '/projects/it'"'"'s, [x] (Team/1) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over'
    '/projects/it'"'"'s, [x] (Team/1) has another virtual environment now than demo, so its packages are missing: ask its owner, for that one, or install your packages in a new version of the module with carry-over'
    '/projects/it'"'"'s, [x] (Team/1) has no user software now, so its packages are missing: ask its owner'
    '/projects/it'"'"'s, [x] (Team/1) is gone or can'"'"'t be read, so its packages are missing: ask its owner'
    /apps/Python/3.11 /apps/Python/3.11/share/sifmod.json '
  "python_version": "3.11",
'
    '
  "venv": "demo",
'
    '/apps/Python/3.11 (Python/3.11) has another Python now than 3.11, and Mine/1 builds on it with packages for that one: reinstall it with eb --rebuild, and install your packages anew with carry-over'
    '/apps/Python/3.11 (Python/3.11) has another virtual environment now than demo, so its packages are missing: ask its owner, for that one, or install your packages in a new version of the module with carry-over'
    '/apps/Python/3.11 (Python/3.11) has no user software now, so its packages are missing: ask its owner'
    '/apps/Python/3.11 (Python/3.11) is gone or can'"'"'t be read, so its packages are missing: ask its owner'
)

# the same in every installation
