
-- An image that lies unpacked, such as on CVMFS: with other labels it is another one than that of the install.
if mode() == "load" and v.unpacked.labels and io and io.open then
    local path = pathJoin(v.image, v.unpacked.labels_file)
    local file = is_file(path) and io.open(path, "rb")
    local labels = file and file:read(v.unpacked.most) or ""
    if file then
        file:close()
    end
    if labels ~= v.unpacked.labels then
        LmodError(v.unpacked.has_changed)
    end
end
