-- Written by `sifmod site module`. It has the settings of the site test: to change them, change the site file and run it again.
-- In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the container only.
-- binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.
local v = {
    family = "container",
    binds = { "/site\\,data:/data 1:ro" },
    optional_binds = { { "/it's/$HOME", "/it's/$HOME" } },
    runtime_variables = { { "_NV", "1" }, { "ENV_PIP_INDEX_URL", "a'b" } },
    expanded = { "HOME", "USER" },
    cache = {
        root = "/it's ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}",
        expanded = { "SLURM_JOB_ACCOUNT", "USER" },
        folders = { { "HF_HOME", "hugging 'face'" }, { "TORCH_HOME", "a/b" } },
        unclean = "its path is not absolute here, or has '//', '.' or '..' in it",
        missing = "does not exist (make it with: mkdir -p -m 700)",
        way = {
            foreign = "belongs to another user, who could put other files there",
            shared = "can be written to by others, who could put other files there (chmod go-w, or chmod +t if they need it)",
            link = "is a link that is not followed: name the folder itself",
            unseen = "can't be looked at with this Lua, which has no posix.sys.stat",
        },
        unusable = "can't be made (no space, or no permission), or is not a folder that you can write to",
        advice = "so `singularity exec` uses default places for caches. The site has them in /it's ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}",
    },
    features = {
        names = { "it-s", "gpus", "other" },
        chosen = { "it-s", "gpus" },
        exported = { { "FEATURE" }, { "QUOTES", "it's \"$HOME\" `id` \\n" }, { "SHARED", "site" } },
        runtime_variables = {
            { "ENV_INNER" },
            { "ENV_LD_LIBRARY_PATH" },
            { "ENV_PYTHONNOUSERSITE" },
            { "_NO_MOUNT" },
            { "_NO_UMASK" },
        },
        library_tail = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
        record = "__SIFMOD_FEATURES_",
        all = {
            {
                name = "it-s",
                needs = { "/it's/$HOME [x]" },
                hosts = { "nid[0-9]*", "a-b.c?" },
                partitions = {},
                binds = {
                    {
                        pattern = "/it's $HOME/[a-c]*/lib?.so",
                        folder = "/ho st/",
                        options = "",
                        missing = "the feature 'it-s' needs '/it's $HOME/[a-c]*/lib?.so', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s",
                    },
                    {
                        source = "/a,b",
                        argument = "/a\\,b:/it's:ro",
                        missing = "the feature 'it-s' needs '/a,b', which this node does not have: use another node, or do without the feature with SIFMOD_FEATURES=-it-s",
                    },
                    { pattern = "/dev/cxi[0-9]", folder = "", options = "ro" },
                    { source = "/x y", argument = "/x y" },
                },
                exported = { { "SHARED", "never" }, { "QUOTES" }, { "FEATURE", "it's \"$HOME\" `id` \\n" } },
                runtime_variables = {
                    { "ENV_INNER", "$(id) it's" },
                    { "ENV_PYTHONNOUSERSITE" },
                    { "_NO_UMASK", "1" },
                    { "_NO_MOUNT", "a 'b'" },
                },
                library_path = "/ho+st/lib:/it%s",
            },
            {
                name = "gpus",
                needs = { "/dev/kfd", "/gpus" },
                hosts = {},
                partitions = {},
                binds = {},
                exported = {},
                runtime_variables = {},
                library_path = "/gpus",
            },
            {
                name = "other",
                needs = {},
                hosts = {},
                partitions = {},
                binds = {},
                exported = {},
                runtime_variables = {},
                library_path = "",
            },
        },
        refusals = {
            {
                features = { "it-s", "other" },
                message = "the features 'it-s' and 'other' conflict: choose one with SIFMOD_FEATURES=-it-s or SIFMOD_FEATURES=-other",
            },
        },
    },
    help = {
        "This module sets what containers of any image need at the site test:",
        "",
        "  module load any-image",
        "  singularity ce run IMAGE.sif",
        "",
        "Bind paths:",
        "  /site\\,data:/data 1:ro",
        "",
        "Bind paths that are used if they exist where the module is loaded:",
        "  /it's/$HOME",
        "",
        "Features of the cluster, those in use marked with *:",
        "  * it-s  it's (the) (host's) 100 percent /n $MPI; on nodes named nid(0-9)* or a-b.c?, that have /it's/$HOME (x)",
        "  * gpus  on nodes with GPUs of AMD, that have /gpus",
        "    other  -",
        "",
        "GPU support:",
        "  --nv (NVIDIA)",
        "",
        "Variables, which containers inherit:",
        "  QUOTES=it's \"$HOME\" `id` \\n",
        "  SHARED=site",
        "",
        "Variables in containers only:",
        "  PIP_INDEX_URL=a'b",
        "",
        "Caches below /it's ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}, if it exists where the module is loaded:",
        "  HF_HOME",
        "  TORCH_HOME",
        "",
        "To add one or take one away: export SIFMOD_FEATURES=NAME,-NAME, then load the module.",
        "",
        "Load it in the job, because it looks at the node where it is loaded. Paths in $SINGULARITY_BIND and",
        "variables that you export are used too. The module of a container has all of this and replaces it.",
    },
    whatis = {
        "Description: Bind paths, variables and GPU support of test for containers of any image",
        "Keywords: container, singularity ce, test",
    },
}
-- site.lua
-- helpers.lua
-- family.lua
-- container.lua
-- optional_binds.lua
-- expand.lua
-- patterns.lua
-- features.lua
-- variables.lua
-- cache.lua
