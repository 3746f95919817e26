-- Just enough of Lmod to run the container part of a modulefile in a plain Lua: what it sets is printed, name NUL value NUL.
-- arg: the modulefile, the mode, the shell; the environment comes from the process.
local environment = {}
local has_lfs, file_system = pcall(require, "lfs")
lfs = has_lfs and file_system or nil
local real_getenv = os.getenv

function os.getenv(name) return environment[name] or real_getenv(name) end
function pushenv(name, value) environment[name] = value end
function family(name) io.write("family\0", name, "\0") end
function unload(name) io.write("unload\0", name, "\0") end
function pathJoin(...) return table.concat({ ... }, "/") end
-- A Lua without lfs asks stat: "drwxr-xr-x".
lfs = lfs or {
    attributes = function(path, name)
        local pipe = io.popen("stat -L -c %A -- '" .. path:gsub("'", "'\\''") .. "' 2>&-")
        local modes = pipe:read()
        pipe:close()
        local kinds = { ["-"] = "file", d = "directory", s = "socket", c = "char device", b = "block device", p = "named pipe" }
        return modes and (name == "permissions" and modes:sub(2) or kinds[modes:sub(1, 1)])
    end,
}
-- isFile is left out: what it says of links, sockets and FIFOs differs between releases of Lmod.
function isDir(path) return lfs.attributes(path, "mode") == "directory" end
function help() end
function whatis() end
function mode() return arg[2] end
function LmodError(text)
    io.stderr:write(text, "\n")
    os.exit(1)
end
function LmodMessage(text) io.stderr:write(text, "\n") end
function execute(command)
    local name = command.cmd:match("[a-z]+%-squashfs") or command.cmd:match("[a-z]+%-layers?")
    for _, wanted in ipairs(command.modeA) do
        if wanted == mode() then io.write(name and "function " .. name or "execute", "\0", command.cmd, "\0") end
    end
end
function myShellType() return (arg[3] == "bash" or arg[3] == "zsh") and "sh" or arg[3] end
function myShellName() return arg[3] end
function myModuleName() return "Demo" end
function myModuleFullName() return "Demo/1.0-x" end
function set_shell_function(name, bash, csh) io.write("function ", name, "\0", bash, "\0") end

dofile(arg[1])
for name, value in pairs(environment) do
    io.write(name, "\0", value, "\0")
end
