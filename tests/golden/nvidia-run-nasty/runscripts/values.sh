# Values of PyTorch-NGC/24.05 it's, which the scripts in bin, share and runscripts read.
# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2191,SC2209
sifmod_module='PyTorch-NGC/24.05 it'"'"'s'
sifmod_root='/tmp/a b,c'"'"'d$e'
sifmod_env_name=PYTORCHMINNGC
sifmod_image='/tmp/a b,c'"'"'d$e/nasty $image "1".sif'
sifmod_squashfs=''
sifmod_central=(
    '/central "images"/nasty $image "1".sif' 12345678901 0123456789abcdef0123456789abcdef
    '/cent`ral`/nasty $image "1".sif' 12345678901 0123456789abcdef0123456789abcdef
)
sifmod_runtime_commands=('singularity ce')
sifmod_launch=run
sifmod_share_container=false
sifmod_master_suffix='-ib'"'"'0'
sifmod_binds=(
    '/tmp/a b\,c'"'"'d$e/runscripts:/runscripts:ro'
    '/tmp/a b\,c'"'"'d$e/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro'
    '/site\,data:/data 1:ro' '/own\,data:/own:rw' /plain
)
sifmod_optional_binds=('/it'"'"'s/$HOME' '/it'"'"'s/$HOME')
sifmod_structural=(
    PREPEND_PATH=/runscripts:/user-software/venv/a+b/bin:/opt/venv/bin
    VIRTUAL_ENV=/user-software/venv/a+b 'VIRTUAL_ENV_PROMPT=(a+b) '
    'WITH_CONDA_VENV=source /runscripts/init-conda-venv'
    'WITH_VENV=source /user-software/venv/a+b/bin/activate'
)
sifmod_unset=(
    CONDA_DEFAULT_ENV CONDA_EXE CONDA_PREFIX CONDA_PROMPT_MODIFIER CONDA_PYTHON_EXE CONDA_SHLVL
    PIP_CONSTRAINT UV_EXCLUDE WITH_CONDA _CE_CONDA _CE_M
)
sifmod_injected=(
    JUPYTER_PREFER_ENV_PATH=1 PREPEND_LD_LIBRARY_PATH=/.singularity.d/libs PYTHONHOME=
    UV_LINK_MODE=copy
)
sifmod_proxies=()
sifmod_exported=(EMPTY= 'SHARED=easyconfig'"'"'s')
sifmod_locales=()
sifmod_image_python=/opt/venv/bin/python3
sifmod_python=/user-software/venv/a+b/bin/python
sifmod_gpu_device=/dev/nvidiactl
sifmod_gpu_variable=_NV
sifmod_visible=(CUDA_VISIBLE_DEVICES)
sifmod_gpus='/dev/nvidia[0-9]*'
sifmod_node_caches=(CUDA_CACHE_PATH TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR)
sifmod_caches=(
    'HF_HOME=hugging '"'"'face'"'"'' PIP_CACHE_DIR=pip
    'TORCH_EXTENSIONS_DIR=PyTorch-NGC/24.05 it'"'"'s/c' TORCH_HOME=a/b
)
sifmod_cache_root='/it'"'"'s ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}'
sifmod_cache_parts=('/it'"'"'s ' SLURM_JOB_ACCOUNT '/$(id),a:b/' USER)
sifmod_features=(it-s gpus other)
sifmod_feature_chosen=(it-s gpus)
sifmod_feature_conditions=(
    it-s path '/it'"'"'s/$HOME [x]'
    it-s host 'nid[0-9]*'
    it-s host 'a-b.c?'
    gpus path /dev/kfd
    gpus path /gpus
)
sifmod_feature_refusals=(
    it-s other
    'the features '"'"'it-s'"'"' and '"'"'other'"'"' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other'
)
sifmod_feature_bind_paths=(
    it-s '/it'"'"'s $HOME/[a-c]*/lib?.so' '' '/ho st/' ''
    'the feature '"'"'it-s'"'"' needs '"'"'/it'"'"'s $HOME/[a-c]*/lib?.so'"'"', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s'
    it-s /a,b '/a\,b:/it'"'"'s:ro' '' ''
    'the feature '"'"'it-s'"'"' needs '"'"'/a,b'"'"', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s'
    it-s '/dev/cxi[0-9]' '' '' ro ''
    it-s '/x y' '/x y' '' '' ''
)
sifmod_feature_exported=(
    '' FEATURE
    '' 'QUOTES=it'"'"'s "$HOME" `id` \n'
    it-s QUOTES
    it-s 'FEATURE=it'"'"'s "$HOME" `id` \n'
)
sifmod_feature_runtime_variables=(
    '' ENV_INNER
    '' ENV_LD_LIBRARY_PATH
    '' ENV_PYTHONNOUSERSITE=1
    '' _NO_MOUNT
    '' _NO_UMASK
    it-s 'ENV_INNER=$(id) it'"'"'s'
    it-s ENV_PYTHONNOUSERSITE
    it-s _NO_UMASK=1
    it-s '_NO_MOUNT=a '"'"'b'"'"''
)
sifmod_feature_library_path=(it-s /ho+st/lib:/it%s gpus /gpus)
sifmod_feature_library_tail='${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}'
sifmod_directory='/tmp/a b,c'"'"'d$e/user-software'
sifmod_packed='/tmp/a b,c'"'"'d$e/user-software.squashfs'
sifmod_unpacked_mark='/tmp/a b,c'"'"'d$e/user-software.unpacked'
sifmod_venv=a+b
sifmod_packed_bind='/tmp/a b\,c'"'"'d$e/user-software.squashfs:/user-software:ro,image-src=/'
sifmod_venv_path=/user-software/venv/a+b
sifmod_directory_bind='/tmp/a b\,c'"'"'d$e/user-software:/user-software'
sifmod_layers='/tmp/a b,c'"'"'d$e/user-software.layers'
sifmod_at_start=''
sifmod_bases=()

# the same in every installation
