
-- The container, written by sifmod VERSION: its values, and the code that sets them until unload.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    image = "/apps/GROMACS/2024.1/gromacs.sif",
    installdir = "/apps/GROMACS/2024.1",
    env_name = "GROMACS",
    binds = { "/apps/GROMACS/2024.1/runscripts:/runscripts:ro" },
    runtime_variables = { { "ENV_PREPEND_PATH", "/runscripts" } },
    is_closed = "can't be read, so GROMACS/2024.1 can't be used. Permissions? Moved? 'namei -l' with this path shows what is closed or gone: ask its owner",
    image_is_gone = "the image '/apps/GROMACS/2024.1/gromacs.sif' is gone, and the site has no copy of it. Reinstall the module with: eb --rebuild",
}
-- helpers.lua
-- container.lua
-- image.lua
-- variables.lua
