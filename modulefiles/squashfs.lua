
-- The same image for runtimes that start no SIFs, if it is there. If it is not, a value of the user's stays, and is pushed: unload pops it.
for _, name in ipairs({ "SQSH", "SQSH" .. v.env_name }) do
    local value = is_file(v.squashfs) and v.squashfs or os.getenv(name)
    if value then
        pushenv(name, value)
    end
end
