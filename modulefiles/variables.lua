
-- Uses last_container (container).
-- The user's own bind paths come last. __SIFMOD_BINDPATH is what wrappers compare with, to find what the user has added since.
local users_binds = last_container and os.getenv("SIFMOD_USER_BINDPATH")
    or not last_container and (os.getenv("APPTAINER_BINDPATH") or os.getenv("SINGULARITY_BINDPATH")) or ""
if users_binds ~= "" then
    pushenv("SIFMOD_USER_BINDPATH", users_binds)
    binds[#binds + 1] = users_binds
end
push_twins("_BINDPATH", table.concat(binds, ","))
pushenv("__SIFMOD_BINDPATH", table.concat(binds, ","))

-- Options of the runtime, and (ENV_) what only the container gets: its activation, and what would hurt programs of the host.
for _, item in ipairs(v.runtime_variables) do
    push_twins(item[1], item[2])
end
