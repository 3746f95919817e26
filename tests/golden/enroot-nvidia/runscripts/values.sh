# Values of PyTorch/24.03-ngc, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_module=PyTorch/24.03-ngc
sifmod_root=/apps/PyTorch/24.03-ngc
sifmod_env_name=PYTORCH
sifmod_image=/apps/PyTorch/24.03-ngc/pytorch.sif
sifmod_squashfs=/apps/PyTorch/24.03-ngc/pytorch.sqsh
sifmod_central=()
sifmod_runtime_commands=(singularity apptainer)
sifmod_launch=exec
sifmod_share_container=false
sifmod_master_suffix=''
sifmod_binds=(
    /apps/PyTorch/24.03-ngc/runscripts:/runscripts:ro
    /apps/PyTorch/24.03-ngc/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro
)
sifmod_optional_binds=(/scratch /scratch)
sifmod_structural=(
    PIP_CONSTRAINT=/runscripts/pip-constraints.txt PREPEND_PATH=/runscripts
    'WITH_CONDA_VENV=source /runscripts/init-conda-venv'
)
sifmod_unset=(
    CONDA_DEFAULT_ENV CONDA_EXE CONDA_PREFIX CONDA_PROMPT_MODIFIER CONDA_PYTHON_EXE CONDA_SHLVL
    UV_EXCLUDE VIRTUAL_ENV VIRTUAL_ENV_PROMPT WITH_CONDA WITH_VENV _CE_CONDA _CE_M
)
sifmod_injected=(
    LD_PRELOAD=/opt/lib/x.so PREPEND_LD_LIBRARY_PATH=/.singularity.d/libs PYTHONHOME=
    PYTHONNOUSERSITE=1
)
sifmod_proxies=()
sifmod_exported=(OMP_NUM_THREADS=4)
sifmod_locales=()
sifmod_image_python=/usr/bin/python3
sifmod_python=/usr/bin/python3
sifmod_gpu_device=/dev/nvidiactl
sifmod_gpu_variable=_NV
sifmod_visible=(CUDA_VISIBLE_DEVICES)
sifmod_gpus='/dev/nvidia[0-9]*'
sifmod_node_caches=(CUDA_CACHE_PATH TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR)
sifmod_caches=(HF_HOME=hf)
sifmod_cache_root=/scratch/caches
sifmod_cache_parts=(/scratch/caches '')
sifmod_features=()
sifmod_runtimes=enroot,apptainer
sifmod_known_runtimes=(
    apptainer singularity ''
    apptainer apptainer ''
    enroot enroot share/enroot.sh
)
sifmod_use_runtimes='use apptainer or enroot, or several with commas between them'
declare -gA sifmod_unmountable=([enroot]=':\\[:space:][:cntrl:]' [pyxis]=',:"$`\\[:cntrl:]')
declare -gA sifmod_unmountable_words=(
    [enroot]='white space, a colon, a backslash or a control character'
    [pyxis]='a comma, colon, quote, dollar sign, backquote, backslash or control character'
)
sifmod_contained_variables=(
    ENROOT_LOGIN_SHELL=no ENROOT_MOUNT_HOME=no ENROOT_REMAP_ROOT=no ENROOT_ROOTFS_WRITABLE=no
)
sifmod_brought_by=(NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=all)
sifmod_passed='HF_HOME NVIDIA_DRIVER_CAPABILITIES NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS'
sifmod_directory=/apps/PyTorch/24.03-ngc/user-software
sifmod_packed=/apps/PyTorch/24.03-ngc/user-software.squashfs
sifmod_unpacked_mark=/apps/PyTorch/24.03-ngc/user-software.unpacked
sifmod_venv=''
sifmod_packed_bind=''

# the same in every installation
