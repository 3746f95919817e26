-- For the parts of modules in modulefiles/, each as it lies.
std = "lua53"
max_line_length = 140
-- Lmod's
read_globals = {
    "LmodError", "LmodMessage", "execute", "family", "help", "isDir", "lfs", "mode", "myModuleFullName", "myModuleName",
    "myShellName", "myShellType", "pathJoin", "pushenv", "set_alias", "set_shell_function", "unload", "whatis",
    -- of a part before it, in the same file of a module
    "as_lua", "exists", "expand", "find_layers", "is_file", "last_container", "matches", "names", "open_file", "own", "problem_of",
    "push_twins", "said",
}
globals = { "v", "binds", "layers" }
-- for a part after it
ignore = { "211/binds", "211/exists", "211/expand", "211/is_file", "211/matches", "211/push_twins" }
