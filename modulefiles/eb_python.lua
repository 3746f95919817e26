
-- The `eb` of EasyBuild takes the first python3 in PATH, which is this container's now, unless this variable names another.
-- EB_PYTHON is the user's, and comes before it.
local eb_python = os.getenv("EB_INSTALLPYTHON")
for folder in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    local python = pathJoin(folder, "python3")
    if not eb_python and folder ~= v.own_python_in and is_file(python) then
        eb_python = python
    end
end
if eb_python then
    pushenv("EB_INSTALLPYTHON", eb_python)
end
