# Values of PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_module=PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315
sifmod_root=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1
sifmod_env_name=PYTORCH
sifmod_image=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif
sifmod_squashfs=''
sifmod_central=(
    /appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif
    0 ''
)
sifmod_runtime_commands=(singularity apptainer)
sifmod_launch=exec
sifmod_share_container=false
sifmod_master_suffix=''
sifmod_binds=(
    /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/runscripts:/runscripts:ro
)
sifmod_optional_binds=(
    /var/spool/slurmd /var/spool/slurmd
    /opt/cray /opt/cray
    /usr/lib64/libcxi.so.1 /usr/lib64/libcxi.so.1
    /usr/lib64/libjansson.so.4 /usr/lib64/libjansson.so.4
    /pfs /pfs
    /scratch /scratch
    /projappl /projappl
    /project /project
    /flash /flash
    /appl /appl
)
sifmod_structural=(
    CONDA_DEFAULT_ENV=pytorch CONDA_EXE=/opt/miniconda3/bin/conda
    CONDA_PREFIX=/opt/miniconda3/envs/pytorch 'CONDA_PROMPT_MODIFIER=(pytorch) '
    CONDA_PYTHON_EXE=/opt/miniconda3/bin/python CONDA_SHLVL=1
    PIP_CONSTRAINT=/runscripts/pip-constraints.txt
    PREPEND_PATH=/runscripts:/user-software/venv/pytorch/bin:/opt/miniconda3/envs/pytorch/bin:/opt/miniconda3/condabin
    UV_EXCLUDE=/runscripts/pip-constraints.txt VIRTUAL_ENV=/user-software/venv/pytorch
    'VIRTUAL_ENV_PROMPT=(pytorch) ' 'WITH_CONDA=source /opt/miniconda3/bin/activate pytorch'
    'WITH_CONDA_VENV=source /runscripts/init-conda-venv'
    'WITH_VENV=source /user-software/venv/pytorch/bin/activate' _CE_CONDA= _CE_M=
)
sifmod_unset=()
sifmod_injected=(JUPYTER_PREFER_ENV_PATH=1 PYTHONHOME= PYTHONNOUSERSITE=1 UV_LINK_MODE=copy)
sifmod_proxies=()
sifmod_exported=(NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3 SIFMOD_TASK_GPUS=own)
sifmod_locales=()
sifmod_image_python=/opt/miniconda3/envs/pytorch/bin/python3
sifmod_python=/user-software/venv/pytorch/bin/python
sifmod_gpu_device=''
sifmod_gpu_variable=''
sifmod_visible=(ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL)
sifmod_gpus='/dev/dri/renderD*'
sifmod_node_caches=(
    MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR
)
sifmod_caches=()
sifmod_features=()
sifmod_directory=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software
sifmod_packed=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs
sifmod_unpacked_mark=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.unpacked
sifmod_venv=pytorch
sifmod_packed_bind=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs:/user-software:ro,image-src=/
sifmod_venv_path=/user-software/venv/pytorch
sifmod_directory_bind=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software:/user-software
sifmod_layers=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.layers
sifmod_at_start=/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro
sifmod_bases=()

# the same in every installation
