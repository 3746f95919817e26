
-- A job that was submitted in a container starts with that one's PATH, and its list of what it has bound, in which host paths are missing.
if mode() == "load" and os.getenv("SINGULARITY_ENVIRONMENT") and not isDir("/.singularity.d") and myShellType() == "sh" then
    local users = os.getenv("__SIFMOD_BIND") and 'export APPTAINER_BIND="$__SIFMOD_BIND" SINGULARITY_BIND="$__SIFMOD_BIND"'
        or "unset APPTAINER_BIND SINGULARITY_BIND"
    local leave = 'PATH="$PATH:${USER_PATH:-/usr/bin}"; unset USER_PATH APPTAINER_ENVIRONMENT SINGULARITY_ENVIRONMENT; '
    execute{ cmd = leave .. users, modeA = { "load" } }
end

-- The job's folder for temporary files, if the container would lack it: see bind_tmpdir of container.sh, which says what is left out.
local tmpdir = os.getenv("SLURMD_NODENAME") and (os.getenv("TMPDIR") or ""):match("^/[%w/._+@=-]+$")
local status = tmpdir and lfs and lfs.symlinkattributes and lfs.symlinkattributes((tmpdir:gsub("/+$", ""))) or {}
local lacks_tmpdir = status.mode == "directory" and status.uid == lfs.attributes("/proc/self", "uid")
for _, list in ipairs({ v.mounted_anyway, binds }) do
    for _, bind in ipairs(list) do
        local folder = (bind:match("^[^:]*:([^:]*)") or bind) .. "/"
        lacks_tmpdir = lacks_tmpdir and (tmpdir .. "/"):sub(1, #folder) ~= folder
    end
end
if lacks_tmpdir then
    binds[#binds + 1] = tmpdir
end
