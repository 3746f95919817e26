-- Written by `sifmod site module`. It has the settings of the site generic: to change them, change the site file and run it again.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    family = "container",
    binds = {},
    runtime_variables = {},
    help = {
        "This module sets what containers of any image need at the site generic:",
        "",
        "  module load any-image",
        "  singularity run IMAGE.sif",
        "",
        "Load it in the job, because it looks at the node where it is loaded. Paths in $SINGULARITY_BIND and",
        "variables that you export are used too. The module of a container has all of this and replaces it.",
    },
    whatis = {
        "Description: Bind paths, variables and GPU support of generic for containers of any image",
        "Keywords: container, singularity, apptainer, generic",
    },
}
-- site.lua
-- helpers.lua
-- family.lua
-- container.lua
-- variables.lua
