
-- The image, and the folders of the installation. Of one that is closed or was moved away nothing may be used: commands would be the
-- host's.
local function refuse_closed(path)
    local file = not (io and io.open) or io.open(path, "rb")
    if not file and mode() == "load" then
        LmodError("'" .. path .. "' " .. v.is_closed)
    elseif file and file ~= true then
        file:close()
    end
end
refuse_closed(pathJoin(v.installdir, "share/container.sh"))
if mode() == "load" and lfs.attributes(v.image, "mode") ~= (v.unpacked and "directory" or "file") then
    LmodError(v.image_is_gone)
end
refuse_closed(v.image)
pushenv("SIF", v.image)
pushenv("SIF" .. v.env_name, v.image)
pushenv("CONTAINERROOT", v.installdir)
pushenv("RUNSCRIPTS", pathJoin(v.installdir, "runscripts"))
pushenv("RUNSCRIPTS" .. v.env_name, pathJoin(v.installdir, "runscripts"))
