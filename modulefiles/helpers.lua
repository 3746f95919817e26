
-- For all parts.
local binds = v.binds

-- APPTAINER_X comes before SINGULARITY_X, and SingularityCE reads only the latter.
local function push_twins(name, value)
    pushenv("SINGULARITY" .. name, value)
    pushenv("APPTAINER" .. name, value)
end
