-- Written by `sifmod site module`. It has the settings of the site test: to change them, change the site file and run it again.
help(table.concat({
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
    "Load it in the job, because it looks at the node where it is loaded. Paths in $SINGULARITY_BIND and",
    "variables that you export are used too. The module of a container has all of this and replaces it.",
}, "\n"))
whatis("Description: Bind paths, variables and GPU support of test for containers of any image")
whatis("Keywords: container, singularity ce, test")

-- One container at a time. When Lmod replaces a member of a family, it loads the new one before it unloads the old one, which
-- leaves the old one's values behind. So the old one is unloaded here first.
local member = os.getenv("LMOD_FAMILY_CONTAINER")
if mode() == "load" and member and member ~= myModuleName() and os.getenv("LMOD_AUTO_SWAP") ~= "no" then
    LmodMessage("Replacing the container module " .. member .. " with " .. myModuleFullName() .. ".")
    unload(member)
end
family("container")

-- Without a family several containers can be loaded, and the values of the last one apply. On unload pushenv removes the top
-- of its stack, whichever module pushed it. If that was another container, the shell loads that one again.
local last = os.getenv("__SIFMOD_CONTAINER")
if mode() == "unload" and last and last ~= myModuleFullName() and myShellType() == "sh" then
    execute{
        cmd = 'case ":$LOADEDMODULES:" in *:"' .. myModuleFullName() .. '":*) ;; *:"' .. last .. '":*) module load "'
            .. last .. '" ;; esac',
        modeA = { "unload" },
    }
end
pushenv("__SIFMOD_CONTAINER", myModuleFullName())

-- Bind paths: those that the container needs, the optional ones that exist here, and the user's own.
local binds = {
    "/site\\,data:/data 1:ro",
}
for _, optional in ipairs({
    { "/it's/$HOME", "/it's/$HOME" },
}) do
    if isDir(optional[1]) or isFile(optional[1]) then
        binds[#binds + 1] = optional[2]
    end
end
local users_binds = last and os.getenv("SIFMOD_USER_BINDPATH")
    or not last and (os.getenv("APPTAINER_BINDPATH") or os.getenv("SINGULARITY_BINDPATH")) or ""
if users_binds ~= "" then
    pushenv("SIFMOD_USER_BINDPATH", users_binds)
    binds[#binds + 1] = users_binds
end
pushenv("SINGULARITY_BINDPATH", table.concat(binds, ","))
pushenv("APPTAINER_BINDPATH", table.concat(binds, ","))
-- what wrappers compare with, to find what the user has added since
pushenv("__SIFMOD_BINDPATH", table.concat(binds, ","))
pushenv("SINGULARITY_NV", "1")
pushenv("APPTAINER_NV", "1")

-- Variables in the container only: settings that would hurt programs of the host.
pushenv("SINGULARITYENV_PIP_INDEX_URL", "a'b")
pushenv("APPTAINERENV_PIP_INDEX_URL", "a'b")

-- The other settings. The container inherits them, so what the user exports later counts.
pushenv("QUOTES", "it's \"" .. (os.getenv("HOME") or "") .. "\" `id` \\n")
pushenv("SHARED", "site")

-- Caches, for `singularity exec`; commands and runscripts find and make the folders on their own node. Loading makes no folder, so
-- only one of the user's that exists is used. What the user has set stays, but is pushed: unload pops each variable.
local cache = "/it's " .. (os.getenv("SLURM_JOB_ACCOUNT") or "") .. "/$(id),a:b/" .. (os.getenv("USER") or "")
local cache_is_known = true
for _, name in ipairs({ "SLURM_JOB_ACCOUNT", "USER" }) do
    cache_is_known = cache_is_known and (os.getenv(name) or "") ~= ""
end
local cache_problem
if cache:sub(1, 1) ~= "/" or (cache .. "/"):find("//", 1, true) or (cache .. "/"):find("/%.%.?/") or cache:find("%c") then
    cache_problem = "its path is not absolute here, or has '//', '.' or '..' in it"
elseif not isDir(cache) then
    cache_problem = "'" .. cache .. "' does not exist (make it with: mkdir -p -m 700)"
elseif lfs and lfs.attributes then
    local is_mine = lfs.attributes(cache, "uid") == lfs.attributes("/proc/self", "uid")
    if not is_mine or lfs.attributes(cache, "permissions"):sub(1, 3) ~= "rwx" then
        cache_problem = "'" .. cache .. "' can't be made or written to, or is not yours"
    end
end
local cache_is_used = cache_is_known and not cache_problem
local lacks_cache = false
for _, item in ipairs({
    { "HF_HOME", "hugging 'face'" },
    { "TORCH_HOME", "a/b" },
}) do
    local own = os.getenv(item[1])
    if mode() == "unload" or own or cache_is_used then
        pushenv(item[1], own or cache .. "/" .. item[2])
    end
    lacks_cache = lacks_cache or not own
end
if mode() == "unload" or cache_is_used then
    pushenv("__SIFMOD_CACHE", cache)
end
if mode() == "load" and cache_is_known and cache_problem and lacks_cache then
    LmodMessage("Warning: " .. cache_problem .. ", so `singularity exec` uses default places for caches. The site has them in /it's ${SLURM_JOB_ACCOUNT}/$(id),a:b/${USER}")
end
