
-- The container, written by sifmod VERSION: its values, and the code that sets them until unload.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    family = "container",
    image = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif",
    installdir = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1",
    env_name = "PYTORCH",
    binds = {
        "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/runscripts:/runscripts:ro",
    },
    optional_binds = {
        { "/var/spool/slurmd", "/var/spool/slurmd" },
        { "/opt/cray", "/opt/cray" },
        { "/usr/lib64/libcxi.so.1", "/usr/lib64/libcxi.so.1" },
        { "/usr/lib64/libjansson.so.4", "/usr/lib64/libjansson.so.4" },
        { "/pfs", "/pfs" },
        { "/scratch", "/scratch" },
        { "/projappl", "/projappl" },
        { "/project", "/project" },
        { "/flash", "/flash" },
        { "/appl", "/appl" },
    },
    runtime_variables = {
        { "ENV_CONDA_DEFAULT_ENV", "pytorch" },
        { "ENV_CONDA_EXE", "/opt/miniconda3/bin/conda" },
        { "ENV_CONDA_PREFIX", "/opt/miniconda3/envs/pytorch" },
        { "ENV_CONDA_PROMPT_MODIFIER", "(pytorch) " },
        { "ENV_CONDA_PYTHON_EXE", "/opt/miniconda3/bin/python" },
        { "ENV_CONDA_SHLVL", "1" },
        { "ENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt" },
        {
            "ENV_PREPEND_PATH",
            "/runscripts:/user-software/venv/pytorch/bin:/opt/miniconda3/envs/pytorch/bin:/opt/miniconda3/condabin",
        },
        { "ENV_UV_EXCLUDE", "/runscripts/pip-constraints.txt" },
        { "ENV_VIRTUAL_ENV", "/user-software/venv/pytorch" },
        { "ENV_VIRTUAL_ENV_PROMPT", "(pytorch) " },
        { "ENV_WITH_CONDA", "source /opt/miniconda3/bin/activate pytorch" },
        { "ENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv" },
        { "ENV_WITH_VENV", "source /user-software/venv/pytorch/bin/activate" },
        { "ENV__CE_CONDA", "" },
        { "ENV__CE_M", "" },
        { "ENV_JUPYTER_PREFER_ENV_PATH", "1" },
        { "ENV_PYTHONHOME", "" },
        { "ENV_PYTHONNOUSERSITE", "1" },
        { "ENV_UV_LINK_MODE", "copy" },
    },
    exported = { { "NCCL_SOCKET_IFNAME", "hsn0,hsn1,hsn2,hsn3" }, { "SIFMOD_TASK_GPUS", "own" } },
    user_software = {
        venv = "pytorch",
        packed_bind = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs:/user-software:ro,image-src=/",
        directory_bind = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software:/user-software",
        at_start = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro",
        layers_at = "/user-layers/",
        most_layers = 8,
        most_manifest = 1048576,
        source = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1",
        names = {
            directory = "/user-software",
            packed = "/user-software.squashfs",
            unpacked_mark = "/user-software.unpacked",
            layers = "/user-software.layers/",
        },
        packed_format = { magic = "hsqs", length_at = 40, size = 96 },
        said = {
            unreadable = {
                "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs can't be read, so /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software is used. Its owner can allow it with: chmod ug+r /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs",
                "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs",
            },
            damaged = {
                "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs is damaged, so /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software is used. Pack it again with: rm /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs; make-squashfs",
                "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs; module unload PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315; eb --rebuild /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/easybuild/*.eb. Then, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt is there, load the module and type: carry-over /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt",
            },
            missing = "the user software is missing: neither /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software nor /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs exists. Restore the file, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315; eb --rebuild /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/easybuild/*.eb. Then, if /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt is there, load the module and type: carry-over /projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/user-software.txt",
            too_many_layers = "is left out, and its packages are missing: containers have at most 8 layers",
            layer_is_left_out = "is left out, and its packages are missing: it can't be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r",
            layer_is_gone = "is gone, and its packages and those of newer layers are missing: its owner can restore it from a backup",
        },
    },
    reloading = { "make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers" },
    mounted_anyway = { "/tmp", "/var/tmp" },
    own_python_in = "/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/bin",
    central = {
        {
            "/appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif",
            0,
            "",
        },
    },
    image_header = { id_at = 48, id_length = 16 },
    is_closed = "can't be read, so PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315 can't be used. Permissions? Moved? 'namei -l' with this path shows what is closed or gone: ask its owner",
    image_is_gone = "the image '/projappl/project_1/EasyBuild/SW/container/PyTorch/2.2.0-rocm-5.6.1/lumi-pytorch-rocm-5.6.1-python-3.10-pytorch-v2.2.0.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild",
}
-- helpers.lua
-- family.lua
-- container.lua
-- central.lua
-- image.lua
-- optional_binds.lua
-- user_software.lua
-- layers.lua
-- job.lua
-- variables.lua
-- exported.lua
-- eb_python.lua
-- reload.lua
