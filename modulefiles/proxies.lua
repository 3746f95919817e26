
-- A proxy of the user's, in either spelling, comes before the site's.
for _, item in ipairs(v.proxies) do
    local users = os.getenv("APPTAINERENV_" .. item[1]) or os.getenv("SINGULARITYENV_" .. item[1])
    push_twins("ENV_" .. item[1], users or os.getenv(item[1]) or os.getenv(item[2]) or item[3])
end
