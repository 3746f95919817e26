import os
from pathlib import Path
from typing import Callable

import pytest
from tests.programs import write_file

from sifmod import names
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError
from sifmod.installed.installation import find_installation, find_installations

from ..support import make_installation, named

Install = Callable[..., Path]


@pytest.fixture
def install(space: SoftwareSpace) -> Install:
    return lambda module, **changes: make_installation(space, module, **changes)


def modules(space: SoftwareSpace) -> list[str]:
    return [item.module for item in find_installations(space).installations]


def test_installations_are_found_by_their_manifests_and_sorted(space: SoftwareSpace, install: Install) -> None:
    assert modules(space) == []
    with pytest.raises(InstallError, match=r"nor any other.*--prefix or EASYBUILD_PREFIX"):
        find_installation(space, "Demo/1")
    for module in ("b/1", "A/2", "A/1"):
        install(module)
    (space.software / "other" / "1.0").mkdir(parents=True)
    (space.software / ".locks").mkdir()
    (space.software / "A" / ".1.gone").mkdir()
    (space.software / "file").touch()
    assert modules(space) == ["A/1", "A/2", "b/1"]


def test_an_installation_knows_its_names_image_and_module_files(space: SoftwareSpace, install: Install) -> None:
    root = install("Demo/1.0-x")
    (found,) = find_installations(space).installations
    assert (found.name, found.version, found.root) == ("Demo", "1.0-x", root)
    assert found.image == root / "demo.sif"
    assert found.module_files == (
        space.modules / "all" / "Demo" / "1.0-x.lua",
        space.modules / "lang" / "Demo" / "1.0-x.lua",
    )
    assert found.user_software.state == "directory"


def test_a_hierarchical_naming_scheme_has_it_in_core(space: SoftwareSpace, install: Install) -> None:
    install("Demo/1")
    (space.modules / "all" / "Core").mkdir()
    (space.modules / "all" / "Demo").rename(space.modules / "all" / "Core" / "Demo")
    (found,) = find_installations(space).installations
    assert found.module_files[0] == space.modules / "all" / "Core" / "Demo" / "1.lua"


def test_it_is_loaded_where_both_the_list_and_the_root_say_so(space: SoftwareSpace, install: Install) -> None:
    root = install("Demo/1")
    (found,) = find_installations(space).installations
    assert found.is_loaded({"LOADEDMODULES": "a/2:Demo/1", "EBROOTDEMO": str(root)})
    assert not found.is_loaded({"LOADEDMODULES": "Demo/1", "EBROOTDEMO": "/elsewhere/Demo/1"})
    assert not found.is_loaded({"LOADEDMODULES": "Demo/10", "EBROOTDEMO": str(root)})
    assert not found.is_loaded({})


def test_an_image_that_is_used_in_place_is_where_it_was(space: SoftwareSpace, install: Install) -> None:
    install("Demo/1", files=(names.MANIFEST,))
    (found,) = find_installations(space).installations
    assert str(found.image) == "/images/demo.sif"


def test_a_module_without_a_suffix_is_a_tcl_one(space: SoftwareSpace, install: Install) -> None:
    install("Demo/1")
    for path in space.modules.glob("*/Demo/1.lua"):
        path.rename(path.with_suffix(""))
    (found,) = find_installations(space).installations
    assert [path.name for path in found.module_files] == ["1", "1"]


def test_damaged_manifests_are_listed_apart(space: SoftwareSpace, install: Install) -> None:
    install("Good/1")
    root = install("Bad/1")
    (root / names.MANIFEST).write_text("{")
    found = find_installations(space)
    assert [item.module for item in found.installations] == ["Good/1"]
    assert [item.root for item in found.damaged] == [root]
    assert "can't be read" in found.damaged[0].problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_named(space: SoftwareSpace, install: Install) -> None:
    """Those of whom restored them with a umask of 077, too; it is not counted as in order."""
    private = [install("Mine/1").parent, install("Other/1"), install("Part/1") / "share"]
    install("Shared/1")
    for name in ("NoModule", "OfOthers"):
        (space.software / name / "1").mkdir(parents=True)
        private.append(space.software / name)
    others = write_file(space.modules / "all" / "OfOthers" / "1.lua", f'local root = "{space.software}/OfOthers/1"\n')
    for folder in private:
        folder.chmod(0)
    found = find_installations(space)
    with pytest.raises(InstallError, match="may not be read"):
        find_installation(space, "Mine/1")
    for folder in private:
        folder.chmod(0o755)
    others.chmod(0)
    private[-1].chmod(0)
    unknown = find_installations(space)
    private[-1].chmod(0o755)
    assert [item.root for item in unknown.damaged] == [space.software / "OfOthers"]
    assert [item.module for item in found.installations] == ["Shared/1"]
    assert [item.root for item in found.damaged] == [private[0], private[1], private[2].parent]
    assert all("may not be read (it belongs to " in item.problem for item in found.damaged)


@pytest.mark.parametrize("wanted", ["Demo/1", "Demo", "/Demo/1/", "{root}", "Demo/1/"])
def test_one_is_found_by_module_name_or_path(space: SoftwareSpace, install: Install, wanted: str) -> None:
    root = install("Demo/1")
    install("Other/1")
    wanted = wanted.format(root=root) if "{" in wanted else wanted.lstrip("/")
    assert find_installation(space, wanted).root == root


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("Demo", "several versions of 'Demo' are installed: choose one of Demo/1, Demo/2"),
        ("Dem/1", "perhaps you meant 'Demo/1'"),
        ("Nothing", "there are Demo/1, Demo/2"),
        ("/nowhere", "'/nowhere' is not an installation of sifmod"),
        ("Bad/1", "the manifest"),
        ("", "there is no module ''"),
    ],
)
def test_a_wrong_name_lists_the_installed(space: SoftwareSpace, install: Install, wanted: str, says: str) -> None:
    install("Demo/1")
    install("Demo/2")
    (install("Bad/1") / names.MANIFEST).write_text("[]")
    with pytest.raises(InstallError) as caught:
        find_installation(space, wanted)
    assert says in str(caught.value)


def test_of_many_modules_some_are_named(space: SoftwareSpace, install: Install) -> None:
    for number in range(10, 22):
        install(f"Demo/{number}")
    with pytest.raises(InstallError, match=r"Demo/19 and 2 more: sifmod list. Name"):
        find_installation(space, "Nothing")


# Other naming schemes than EasyBuild's own


@pytest.mark.parametrize(
    ("module", "subdir"),
    [
        ("devel/Demo/1", "Demo/1"),
        ("Demo/.1", "Core/Demo/1"),
        ("Demo/1", "Core/lib/Demo/1"),
        ("Demo/1", "Compiler/GCC/13.2.0/ai/Demo/1"),
    ],
)
def test_easybuild_s_names_are_found(space: SoftwareSpace, install: Install, module: str, subdir: str) -> None:
    root = install(module, **named(space, module, subdir=subdir))
    (found,) = find_installations(space).installations
    assert (found.root, found.module, found.name, found.version) == (root, module, "Demo", "1")
    assert [path.is_symlink() for path in found.module_files] == [False, True]
    for wanted in (module, f"Core/{module}", "Demo/1", "Demo", str(root)):
        assert find_installation(space, wanted) == found
    assert found.is_loaded({"LOADEDMODULES": module, "EBROOTDEMO": str(root)})


def test_modules_of_one_name_in_a_hierarchy_are_told_apart(space: SoftwareSpace, install: Install) -> None:
    for tree in ("Core", "Compiler/GCC/13"):
        names_of = named(space, "Demo/1", subdir=f"{tree}/Demo/1", tree=f"all/{tree}")
        names_of["module_files"] = dict(list(names_of["module_files"].items())[:1])
        install("Demo/1", **{**names_of, "full_module": f"{tree}/Demo/1"})
    with pytest.raises(InstallError, match="choose one of Compiler/GCC/13/Demo/1, Core/Demo/1"):
        find_installation(space, "Demo/1")
    assert find_installation(space, "Core/Demo/1").root == space.software / "Core" / "Demo" / "1"


def test_neither_installations_nor_links_are_walked_through(
    space: SoftwareSpace, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = install("Demo/1")
    other = SoftwareSpace(tmp_path / "other" / "software", tmp_path / "other" / "modules")
    elsewhere = make_installation(other, "Else/1")
    (space.software / "Else").symlink_to(elsewhere.parent)
    (space.software / "Demo" / "latest").symlink_to(root)
    (space.software / "Demo" / "2").symlink_to(elsewhere)
    (space.software / "GCC" / "13" / "easybuild").mkdir(parents=True)
    (space.software / "GCC" / "13" / "lib").mkdir()
    looked = []
    scandir = os.scandir

    def look(folder: Path) -> object:
        looked.append(Path(folder).relative_to(space.software))
        return scandir(folder)

    monkeypatch.setattr("sifmod.installed.installation.os.scandir", look)
    assert modules(space) == ["Demo/1"]
    assert sorted(map(str, looked)) == [".", "Demo", "GCC", "GCC/13"]
