
-- One container at a time. When Lmod replaces a member of a family, it loads the new one before it unloads the old one, which
-- leaves the old one's values behind. So the old one is unloaded here first.
local member = os.getenv("LMOD_FAMILY_" .. v.family:upper())
if mode() == "load" and member and member ~= myModuleName() and os.getenv("LMOD_AUTO_SWAP") ~= "no" then
    LmodMessage("Replacing the container module " .. member .. " with " .. myModuleFullName() .. ".")
    unload(member)
end
family(v.family)
