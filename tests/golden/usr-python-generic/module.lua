
-- The container, written by sifmod VERSION: its values, and the code that sets them until unload.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    family = "container",
    image = "/apps/Python/3.11-demo-singularity/demo.sif",
    installdir = "/apps/Python/3.11-demo-singularity",
    env_name = "PYTHON",
    binds = { "/apps/Python/3.11-demo-singularity/runscripts:/runscripts:ro" },
    runtime_variables = {
        { "ENV_PIP_CONSTRAINT", "/runscripts/pip-constraints.txt" },
        { "ENV_PREPEND_PATH", "/runscripts:/user-software/venv/demo/bin" },
        { "ENV_UV_EXCLUDE", "/runscripts/pip-constraints.txt" },
        { "ENV_VIRTUAL_ENV", "/user-software/venv/demo" },
        { "ENV_VIRTUAL_ENV_PROMPT", "(demo) " },
        { "ENV_WITH_CONDA_VENV", "source /runscripts/init-conda-venv" },
        { "ENV_WITH_VENV", "source /user-software/venv/demo/bin/activate" },
        { "ENV_JUPYTER_PREFER_ENV_PATH", "1" },
        { "ENV_PYTHONHOME", "" },
        { "ENV_PYTHONNOUSERSITE", "1" },
        { "ENV_UV_LINK_MODE", "copy" },
    },
    user_software = {
        venv = "demo",
        packed_bind = "/apps/Python/3.11-demo-singularity/user-software.squashfs:/user-software:ro,image-src=/",
        directory_bind = "/apps/Python/3.11-demo-singularity/user-software:/user-software",
        at_start = "/apps/Python/3.11-demo-singularity/runscripts/at-start.sh:/.singularity.d/env/99-sifmod.sh:ro",
        layers_at = "/user-layers/",
        most_layers = 8,
        most_manifest = 1048576,
        source = "/apps/Python/3.11-demo-singularity",
        names = {
            directory = "/user-software",
            packed = "/user-software.squashfs",
            unpacked_mark = "/user-software.unpacked",
            layers = "/user-software.layers/",
        },
        packed_format = { magic = "hsqs", length_at = 40, size = 96 },
        said = {
            unreadable = {
                "/apps/Python/3.11-demo-singularity/user-software.squashfs can't be read, so /apps/Python/3.11-demo-singularity/user-software is used. Its owner can allow it with: chmod ug+r /apps/Python/3.11-demo-singularity/user-software.squashfs",
                "/apps/Python/3.11-demo-singularity/user-software.squashfs can't be read, and your packages are in it. Its owner can allow it with: chmod ug+r /apps/Python/3.11-demo-singularity/user-software.squashfs",
            },
            damaged = {
                "/apps/Python/3.11-demo-singularity/user-software.squashfs is damaged, so /apps/Python/3.11-demo-singularity/user-software is used. Pack it again with: rm /apps/Python/3.11-demo-singularity/user-software.squashfs; make-squashfs",
                "/apps/Python/3.11-demo-singularity/user-software.squashfs is damaged, and your packages are in it. Restore it from a backup, or, if /apps/Python/3.11-demo-singularity/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise begin anew with: rm /apps/Python/3.11-demo-singularity/user-software.squashfs; module unload Python/3.11-demo-singularity; eb --rebuild /apps/Python/3.11-demo-singularity/easybuild/*.eb. Then, if /apps/Python/3.11-demo-singularity/user-software.txt is there, load the module and type: carry-over /apps/Python/3.11-demo-singularity/user-software.txt",
            },
            missing = "the user software is missing: neither /apps/Python/3.11-demo-singularity/user-software nor /apps/Python/3.11-demo-singularity/user-software.squashfs exists. Restore the file, if /apps/Python/3.11-demo-singularity/user-software.squashfs.previous is there, with: make-squashfs --rollback. Otherwise make it again, without your packages, with: module unload Python/3.11-demo-singularity; eb --rebuild /apps/Python/3.11-demo-singularity/easybuild/*.eb. Then, if /apps/Python/3.11-demo-singularity/user-software.txt is there, load the module and type: carry-over /apps/Python/3.11-demo-singularity/user-software.txt",
            too_many_layers = "is left out, and its packages are missing: containers have at most 8 layers",
            layer_is_left_out = "is left out, and its packages are missing: it can't be read, or it is damaged. Its owner can restore it from a backup, or make it readable with chmod ug+r",
            layer_is_gone = "is gone, and its packages and those of newer layers are missing: its owner can restore it from a backup",
        },
    },
    reloading = { "make-squashfs", "unmake-squashfs", "add-layer", "remove-layer", "flatten-layers" },
    mounted_anyway = { "/tmp", "/var/tmp" },
    own_python_in = "/apps/Python/3.11-demo-singularity/bin",
    is_closed = "can't be read, so Python/3.11-demo-singularity can't be used. Permissions? Moved? 'namei -l' with this path shows what is closed or gone: ask its owner",
    image_is_gone = "the image '/apps/Python/3.11-demo-singularity/demo.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild",
}
-- helpers.lua
-- family.lua
-- container.lua
-- image.lua
-- user_software.lua
-- layers.lua
-- job.lua
-- variables.lua
-- eb_python.lua
-- reload.lua
