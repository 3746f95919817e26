
-- For all parts.
local binds = v.binds

-- APPTAINER_X comes before SINGULARITY_X, and SingularityCE reads only the latter.
local function push_twins(name, value)
    pushenv("SINGULARITY" .. name, value)
    pushenv("APPTAINER" .. name, value)
end

-- Of a link, its target. With isFile of Lmod 8.6 a link without a target is a file, and a socket is not there; with that of 8.7 a FIFO is a
-- file.
local function exists(path)
    return lfs.attributes(path, "mode") ~= nil
end
local function is_file(path)
    return lfs.attributes(path, "mode") == "file"
end
