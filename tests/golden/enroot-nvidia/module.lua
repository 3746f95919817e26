
-- The container, written by sifmod VERSION: its values, and the code that sets them until unload.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    family = "container",
    image = "/apps/PyTorch/24.03-ngc/pytorch.sif",
    squashfs = "/apps/PyTorch/24.03-ngc/pytorch.sqsh",
    installdir = "/apps/PyTorch/24.03-ngc",
    env_name = "PYTORCH",
    binds = {
        "/apps/PyTorch/24.03-ngc/runscripts:/runscripts:ro",
        "/apps/PyTorch/24.03-ngc/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro",
    },
    optional_binds = { { "/scratch", "/scratch" } },
    runtime_variables = {
        { "_NV", "1" },
        { "ENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt" },
        { "ENV_PREPEND_PATH", "/runscripts" },
        { "ENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv" },
        { "ENV_LD_PRELOAD", "/opt/lib/x.so" },
        { "ENV_PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs" },
        { "ENV_PYTHONHOME", "" },
        { "ENV_PYTHONNOUSERSITE", "1" },
    },
    exported = { { "OMP_NUM_THREADS", "4" } },
    expanded = { "HOME", "USER" },
    cache = {
        root = "/scratch/caches",
        expanded = {},
        folders = { { "HF_HOME", "hf" } },
        unclean = "its path is not absolute here, or has '//', '.' or '..' in it",
        missing = "does not exist (make it with: mkdir -p -m 700)",
        way = {
            foreign = "belongs to another user, who could put other files there",
            shared = "can be written to by others, who could put other files there (chmod go-w, or chmod +t if they need it)",
            link = "is a link that is not followed: name the folder itself",
            unseen = "can't be looked at with this Lua, which has no posix.sys.stat",
        },
        unusable = "can't be made (no space, or no permission), or is not a folder that you can write to",
        advice = "so `singularity exec` uses default places for caches. The site has them in /scratch/caches",
    },
    mounted_anyway = { "/tmp", "/var/tmp" },
    own_python_in = "/apps/PyTorch/24.03-ngc/bin",
    is_closed = "can't be read, so PyTorch/24.03-ngc can't be used. Permissions? Moved? 'namei -l' with this path shows what is closed or gone: ask its owner",
    image_is_gone = "the image '/apps/PyTorch/24.03-ngc/pytorch.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild",
}
-- helpers.lua
-- family.lua
-- container.lua
-- image.lua
-- squashfs.lua
-- optional_binds.lua
-- expand.lua
-- job.lua
-- variables.lua
-- exported.lua
-- cache.lua
-- eb_python.lua
