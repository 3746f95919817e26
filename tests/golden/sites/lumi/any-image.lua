-- Written by `sifmod site module`. It has the settings of the site lumi: to change them, change the site file and run it again.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    family = "container",
    binds = {},
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
    runtime_variables = {},
    exported = { { "NCCL_SOCKET_IFNAME", "hsn0,hsn1,hsn2,hsn3" }, { "SIFMOD_TASK_GPUS", "own" } },
    help = {
        "This module sets what containers of any image need at the site lumi:",
        "",
        "  module load any-image",
        "  singularity run IMAGE.sif",
        "",
        "Bind paths that are used if they exist where the module is loaded:",
        "  /var/spool/slurmd",
        "  /opt/cray",
        "  /usr/lib64/libcxi.so.1",
        "  /usr/lib64/libjansson.so.4",
        "  /pfs",
        "  /scratch",
        "  /projappl",
        "  /project",
        "  /flash",
        "  /appl",
        "",
        "Variables, which containers inherit:",
        "  NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3",
        "  SIFMOD_TASK_GPUS=own",
        "",
        "Load it in the job, because it looks at the node where it is loaded. Paths in $SINGULARITY_BIND and",
        "variables that you export are used too. The module of a container has all of this and replaces it.",
    },
    whatis = {
        "Description: Bind paths, variables and GPU support of lumi for containers of any image",
        "Keywords: container, singularity, apptainer, lumi",
    },
}
-- site.lua
-- helpers.lua
-- family.lua
-- container.lua
-- optional_binds.lua
-- variables.lua
-- exported.lua
