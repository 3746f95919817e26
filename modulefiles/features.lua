
-- Uses expand (expand); as_lua, matches (patterns).
-- What the cluster offers to containers: each feature in use that applies on this node adds bind paths and variables. The record
-- says which these were, for the unload, and for commands on other nodes.

-- The name of this node, in full and short, and Slurm's for it. The variable HOSTNAME of a job is that of the login node.
local hosts = { os.getenv("SLURMD_NODENAME") }
local hostname = io and io.open and io.open("/proc/sys/kernel/hostname")
if hostname then
    local name = hostname:read() or ""
    hostname:close()
    hosts[#hosts + 1] = name
    hosts[#hosts + 1] = name:match("^[^.]*")
end
local partitions = { os.getenv("SLURM_JOB_PARTITION") }
local function is_one_of(patterns, names)
    for _, pattern in ipairs(patterns) do
        for _, name in ipairs(names) do
            if name:match(as_lua(pattern)) then
                return true
            end
        end
    end
    return #patterns == 0
end

local is_known, chosen = {}, {}
for _, name in ipairs(v.features.names) do
    is_known[name] = true
end
for _, name in ipairs(v.features.chosen) do
    chosen[name] = true
end
for change in (os.getenv("SIFMOD_FEATURES") or ""):gmatch("[^,%s]+") do
    local name = change:gsub("^%-", "")
    if is_known[name] then
        chosen[name] = change == name or nil
    elseif mode() == "load" then
        name = name:gsub("[^%w_-]", "?"):sub(1, 40)
        LmodMessage("SIFMOD_FEATURES: there is no feature '" .. name .. "': use " .. table.concat(v.features.names, ", "))
    end
end
-- Those in use whose conditions this node meets: the others conflict with nothing here.
local usable = {}
for _, feature in ipairs(v.features.all) do
    local is_met = chosen[feature.name] and is_one_of(feature.hosts, hosts) and is_one_of(feature.partitions, partitions)
    for _, path in ipairs(feature.needs) do
        is_met = is_met and exists(path)
    end
    usable[feature.name] = is_met
end
for _, refusal in ipairs(v.features.refusals) do
    local is_met = mode() == "load"
    for _, name in ipairs(refusal.features) do
        is_met = is_met and usable[name]
    end
    if is_met then
        LmodError(refusal.message)
    end
end

-- binds_of(FEATURE): its bind paths on this node, or nil and the message if one is missing that it needs.
local function binds_of(feature)
    local found = {}
    for _, bind in ipairs(feature.binds) do
        local count = #found
        if bind.argument and exists(bind.source) then
            found[#found + 1] = bind.argument
        end
        for _, path in ipairs(bind.pattern and matches(bind.pattern) or {}) do
            if exists(path) and not path:find("[,:\\^%c]") and not path:find("%s$") then
                local folder, options = bind.folder, bind.options
                local destination = folder ~= "" and folder .. path:match("[^/]*$") or options ~= "" and path
                found[#found + 1] = path .. (destination and ":" .. destination or "") .. (options ~= "" and ":" .. options or "")
            end
        end
        if bind.missing and #found == count then
            return nil, bind.missing
        end
    end
    return found
end

-- The values that variables have without features; those of features replace or remove them.
local exported, twins, is_bound, applied, in_use, library_path = {}, {}, {}, {}, {}, {}
local function change_variables(feature)
    for _, item in ipairs(feature.exported) do
        exported[item[1]] = item[2]
    end
    for _, item in ipairs(feature.runtime_variables) do
        twins[item[1]] = item[2]
    end
end
change_variables(v.features)
local before = mode() == "unload" and (os.getenv(v.features.record) or ":"):match(":(.*)")
for _, feature in ipairs(v.features.all) do
    local applies = usable[feature.name]
    if chosen[feature.name] then
        in_use[#in_use + 1] = feature.name
    end
    if before then
        applies = ("," .. before .. ","):find("," .. feature.name .. ",", 1, true)
    elseif applies then
        local found, missing = binds_of(feature)
        if not found and mode() == "load" then
            LmodMessage("Warning: " .. missing)
        end
        applies = found
        for _, bind in ipairs(found or {}) do
            if not is_bound[bind] then
                binds[#binds + 1] = bind
                is_bound[bind] = true
            end
        end
    end
    if applies then
        applied[#applied + 1] = feature.name
        change_variables(feature)
        if feature.library_path ~= "" then
            library_path[#library_path + 1] = feature.library_path
        end
    end
end
if #library_path > 0 then
    twins["ENV_LD_LIBRARY_PATH"] = table.concat(library_path, ":") .. v.features.library_tail
end
for _, item in ipairs(v.features.exported) do
    if exported[item[1]] then
        pushenv(item[1], expand(exported[item[1]], v.expanded))
    end
end
for _, item in ipairs(v.features.runtime_variables) do
    if twins[item[1]] then
        push_twins(item[1], twins[item[1]])
    end
end
for _, name in ipairs({ v.features.record, "__SIFMOD_FEATURES" }) do
    pushenv(name, table.concat(in_use, ",") .. ":" .. table.concat(applied, ","))
end
