
-- A job that was submitted in a container starts with that one's PATH, and its list of what it has bound, in which host paths are missing.
if mode() == "load" and os.getenv("SINGULARITY_ENVIRONMENT") and not isDir("/.singularity.d") and myShellType() == "sh" then
    local users = os.getenv("__SIFMOD_BIND") and 'export APPTAINER_BIND="$__SIFMOD_BIND" SINGULARITY_BIND="$__SIFMOD_BIND"'
        or "unset APPTAINER_BIND SINGULARITY_BIND"
    local leave = 'PATH="$PATH:${USER_PATH:-/usr/bin}"; unset USER_PATH APPTAINER_ENVIRONMENT SINGULARITY_ENVIRONMENT; '
    execute{ cmd = leave .. users, modeA = { "load" } }
end

-- The job's folders for temporary files that the container would lack: see bind_own of paths.sh, which says what is left out.
for _, name in ipairs({ "TMPDIR", "TMP", "TEMP", "TEMPDIR" }) do
    local temporary = os.getenv("SLURMD_NODENAME") and (os.getenv(name) or ""):match("^/[%w/._+@=-]+$")
    local status = temporary and lfs and lfs.symlinkattributes and lfs.symlinkattributes((temporary:gsub("/+$", ""))) or {}
    local is_lacking = status.mode == "directory" and status.uid == lfs.attributes("/proc/self", "uid")
    for _, list in ipairs({ v.mounted_anyway, binds }) do
        for _, bind in ipairs(list) do
            local folder = (bind:match("^[^:]*:([^:]*)") or bind) .. "/"
            is_lacking = is_lacking and (temporary .. "/"):sub(1, #folder) ~= folder
        end
    end
    if is_lacking then
        binds[#binds + 1] = temporary
    end
end
