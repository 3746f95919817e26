import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sifmod import names
from sifmod.container.spec import Base
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError, ParameterError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING
from sifmod.install.manifest import Manifest, read_manifest
from sifmod.installed.base import base_findings, bases_of, built_on, find_base, identity
from sifmod.installed.installation import Installation
from sifmod.installed.modulepath import announce, known_installations
from sifmod.site.settings import Site

from ..support import SQUASHFS, a_site

MANIFEST = Manifest(
    module="Team/1",
    image="x.sif",
    image_source="/x.sif",
    image_sha256="",
    image_size=1,
    python_version="3.11",
    files=(names.MANIFEST,),
    tools={"sifmod": "0.1"},
    venv="demo",
    image_id="00",
    parameters={"venv": "demo"},
)


@pytest.fixture
def space(tmp_path: Path) -> SoftwareSpace:
    return SoftwareSpace(tmp_path / "software", tmp_path / "modules")


def install(root: Path, **changes: Any) -> Base:
    (root / "share").mkdir(parents=True, exist_ok=True)
    manifest = replace(MANIFEST, **changes)
    (root / names.MANIFEST).write_text(manifest.text)
    return identity(root, manifest)


def module_file(folder: Path, root: Path, *, syntax: str = "lua") -> str:
    path = folder / "Team" / ("1.lua" if syntax == "lua" else "1")
    path.parent.mkdir(parents=True)
    head = f'help([==[x]==])\n\nlocal root = "{root}"\n' if syntax == "lua" else f"#%Module\n\nset root {root}\n"
    path.write_text(f"{head}{'--' if syntax == 'lua' else '#'} {names.WRITTEN_BY}\n")
    return str(folder)


@pytest.mark.parametrize("syntax", ["lua", "tcl"])
def test_a_module_of_modulepath_is_found_in_whoever_s_space(tmp_path: Path, space: SoftwareSpace, syntax: str) -> None:
    theirs, other = tmp_path / "theirs" / "Team" / "1", tmp_path / "other"
    install(theirs)
    paths = [
        str(tmp_path / "missing"),
        module_file(tmp_path / "first", other),  # of other software
        module_file(tmp_path / "second", theirs, syntax=syntax),
    ]
    assert find_base("Team/1", space, {"MODULEPATH": ":".join(paths)}).root == theirs
    with pytest.raises(ParameterError, match="there is no module 'Team/1' of sifmod"):
        find_base("Team/1", space, {"MODULEPATH": paths[1]})
    own = space.software / "Team" / "1"
    install(own)
    assert find_base("Team/1", space, {}).root == own
    assert find_base("Team/1", space, {"MODULEPATH": ":".join(paths)}).root == theirs
    assert find_base(str(theirs), space, {}).root == theirs


@pytest.mark.parametrize(
    "wanted", ["", "../Team/1", "Team/..", "/x/./y", "a//b", "a b", "Team/1\n", "Team/", "/x\ny", 1, ["Team/1"], None]
)
def test_names_that_are_none(space: SoftwareSpace, wanted: Any) -> None:
    with pytest.raises(ParameterError, match="builds_on"):
        find_base(wanted, space, {"MODULEPATH": "/"})


def test_a_base_that_is_damaged_or_old_is_one_sentence(tmp_path: Path, space: SoftwareSpace) -> None:
    root = tmp_path / "theirs"
    install(root)
    (root / names.MANIFEST).write_text("{")
    folder = module_file(tmp_path / "modules", root)
    with pytest.raises(ParameterError, match="can't be read"):
        find_base("Team/1", space, {"MODULEPATH": folder})
    install(tmp_path / "old", parameters={})
    with pytest.raises(ParameterError, match=r"sifmod 0\.1, which did not record its parameters: its owner, \w+,"):
        bases_of(found(tmp_path / "old", space), tmp_path / "new")


def found(root: Path, space: SoftwareSpace) -> Installation:
    manifest = read_manifest(root)
    assert manifest
    return Installation(root, manifest, space)


def test_the_nearest_comes_first_and_a_circle_is_refused(tmp_path: Path, space: SoftwareSpace) -> None:
    last = install(tmp_path / "last")
    near = install(tmp_path / "near", bases=(last,))
    assert bases_of(found(tmp_path / "near", space), tmp_path / "new") == (near, last)
    for itself in (tmp_path / "near", tmp_path / "last"):
        with pytest.raises(ParameterError, match="a circle: Team/1 builds on Team/1, which is this module"):
            bases_of(found(tmp_path / "near", space), itself)
    install(tmp_path / "own")
    (tmp_path / "link").symlink_to("own")
    with pytest.raises(ParameterError, match="a circle"):
        bases_of(found(tmp_path / "link", space), tmp_path / "own")


def test_the_ninth_layer_is_named(tmp_path: Path, space: SoftwareSpace) -> None:
    install(tmp_path / "full")
    layers = tmp_path / "full" / "user-software.layers"
    layers.mkdir()
    for number in range(1, 9):
        (layers / f"{number}.squashfs").write_bytes(SQUASHFS)
    assert bases_of(found(tmp_path / "full", space), tmp_path / "new")
    (tmp_path / "full" / "user-software").mkdir()
    with pytest.raises(ParameterError, match=rf"there would be 9; the first one too many is '{layers}/1\.squashfs'"):
        bases_of(found(tmp_path / "full", space), tmp_path / "new")


@pytest.mark.parametrize(
    ("changes", "severity", "says"),
    [
        ({}, OK, "is as it was"),
        ({"image_id": "ff"}, NOTE, "another image"),
        ({"venv": "x"}, WARNING, "has the virtual environment 'x' now"),
        ({"bases": (Base("X/1", "/x", "", "", ""),)}, WARNING, "builds on /x now"),
        ({"parameters": {"venv": "demo", "gpu": ""}}, NOTE, "has other bind paths, variables or the like now"),
        ({"python_version": "3.12"}, PROBLEM, "has Python 3.12 now"),
        (None, PROBLEM, "is gone"),
    ],
)
def test_changes_of_a_base(tmp_path: Path, space: SoftwareSpace, changes: Any, severity: str, says: str) -> None:
    base = install(tmp_path / "base")
    (tmp_path / "base" / "user-software").mkdir()
    install(tmp_path / "own", bases=(base,))
    if changes is None:
        (tmp_path / "base" / names.MANIFEST).unlink()
    else:
        install(tmp_path / "base", **changes)
    (finding,) = base_findings(found(tmp_path / "own", space), a_site(support="help@x"))
    assert finding.severity == severity
    assert says in finding.what


def test_user_software_that_is_gone_is_told(tmp_path: Path, space: SoftwareSpace) -> None:
    base = install(tmp_path / "base")
    install(tmp_path / "own", bases=(base,))
    (finding,) = base_findings(found(tmp_path / "own", space), a_site(support="help@x"))
    assert (finding.severity, "has no user software now" in finding.what) == (PROBLEM, True)
    assert "ask its owner, or help@x: is its" in finding.remedy


def test_a_module_is_found_by_path_and_beside_a_namesake(tmp_path: Path, space: SoftwareSpace) -> None:
    install(tmp_path / "a b, c")
    for wanted in (f"{tmp_path}/a b, c", f"{tmp_path}/a b, c/"):
        assert find_base(wanted, space, {}).root == tmp_path / "a b, c"
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    install(own)
    install(theirs)
    paths = f"{module_file(tmp_path / 'first', own)}:{module_file(tmp_path / 'second', theirs)}"
    assert find_base("Team/1", space, {"MODULEPATH": paths}, own).root == theirs
    assert find_base("Team/1", space, {"MODULEPATH": paths}).root == own


def test_a_base_that_may_not_be_read(tmp_path: Path, space: SoftwareSpace) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    theirs = tmp_path / "theirs"
    install(theirs)
    folder = module_file(tmp_path / "modules", theirs)
    for closed in (theirs / "share", theirs):
        closed.chmod(0)
        with pytest.raises(ParameterError, match="you may not read"):
            find_base("Team/1", space, {"MODULEPATH": folder})
    theirs.chmod(0o700)
    (theirs / "share").chmod(0o700)


def test_who_builds_on_it(tmp_path: Path, space: SoftwareSpace) -> None:
    """In its software space, in MODULEPATH, and in the folder that the site names."""
    base = install(space.software / "Team" / "1")
    install(space.software / "Mine" / "1", bases=(base,), module="Mine/1")
    install(space.software / "Other" / "1", module="Other/1")
    seen, unseen = tmp_path / "seen", tmp_path / "unseen"
    install(seen, bases=(base,), module="Seen/1")
    install(unseen, bases=(base,), module="Unseen/1")
    folder = module_file(tmp_path / "modules", seen)
    os.mkfifo(tmp_path / "modules" / "fifo")
    (tmp_path / "modules" / "nul.lua").write_text(f'local root = "/a\0b"\n-- {names.WRITTEN_BY}\n')
    deep = tmp_path / "deep"
    deep.mkdir()
    for _ in range(20):  # longer than a path may be
        deep.rename(tmp_path / "below")
        deep.mkdir()
        (tmp_path / "below").rename(deep / ("x" * 250))
    deep.rename(tmp_path / "modules" / "deep")
    links = tmp_path / "links"
    links.mkdir()
    site = a_site(dependents_dir=str(links))
    announce(unseen, site)
    (taken,) = links.iterdir()
    taken.unlink()
    taken.symlink_to("/")  # by somebody else
    for root in (unseen, seen, unseen, tmp_path / "gone"):
        announce(root, site)
    assert len([*links.iterdir()]) == 4
    (links / "relative").symlink_to("../unseen")
    (links / "file").touch()
    team = found(Path(base.root), space)

    def names_of(environ: dict[str, str], site: Site) -> list[str]:
        return sorted(one.module for one in built_on(team, known_installations(space, environ, site)))

    assert names_of({}, a_site()) == ["Mine/1"]
    assert names_of({"MODULEPATH": f"/missing:{folder}"}, a_site()) == ["Mine/1", "Seen/1"]
    assert names_of({}, site) == ["Mine/1", "Seen/1", "Unseen/1"]
    with pytest.raises(InstallError, match="the owner of its base does not see this module"):
        announce(unseen, a_site(dependents_dir="/missing"))


def test_modules_of_others_are_only_read(tmp_path: Path, space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    install(theirs)
    folder = tmp_path / "modules"
    module_file(folder, theirs)
    for number in range(50):
        (folder / f"Other{number}").mkdir()
        (folder / f"Other{number}" / "1.lua").write_text(f'local root = "{tmp_path}/others/{number}"\n')
    looked: list[str] = []

    def noted(call: Callable[..., Any], path: Any, **more: Any) -> Any:
        looked.append(str(path))
        return call(path, **more)

    for call in (os.lstat, os.scandir):
        monkeypatch.setattr(os, call.__name__, partial(noted, call))
    found = known_installations(space, {"MODULEPATH": str(folder)}, a_site())
    assert [one.root for one in found] == [theirs]
    assert [path for path in looked if "/others/" in path] == []
    # each folder of modules once
    assert len([path for path in looked if path.startswith(f"{folder}/")]) == 51


def test_the_support_is_named_too(tmp_path: Path, space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    install(theirs)
    folder = module_file(tmp_path / "modules", theirs)

    def closed(_root: Path) -> None:
        raise InstallError("closed") from PermissionError(13, "Permission denied", "/theirs/share")

    monkeypatch.setattr("sifmod.installed.installation.read_manifest", closed)
    ask = a_site(support="help@centre.example").ask_owner
    said = "you may not read '/theirs/share': for permission, ask its owner, or help@centre.example"
    with pytest.raises(ParameterError, match=re.escape(said)):
        find_base("Team/1", space, {"MODULEPATH": folder}, ask_owner=ask)
