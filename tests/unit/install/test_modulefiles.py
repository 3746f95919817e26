"""Under the name of a module file there is the old one or the new one, whole, whatever happens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sampling import drawn

from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError
from sifmod.install.manifest import read_manifest
from sifmod.install.modulefiles import ModuleFiles, helper_names, record_module_files
from sifmod.install.rollback import settle
from sifmod.names import MANIFEST, OURS

from ..support import Killing, Need, make_installation, mode_of, named, snapshot

# What a module step does: `write` of the file and of two links, then the run keeps it or takes it back.
RUN = """
import sys
from pathlib import Path
from sifmod.install.modulefiles import ModuleFiles

top, end = Path(sys.argv[1]), sys.argv[2]
files = ModuleFiles()
files.write(top / "all" / "1.0.lua", "new\\n" * 1000)
for name in ("lang", "tools"):
    (top / name).mkdir(exist_ok=True)
    files.link(top / name / "1.0.lua", top / "all" / "1.0.lua")
getattr(files, end)()
"""


CHANGES = (
    *("write", "fsync", "openat", "unlink", "unlinkat", "rename", "renameat"),
    *("link", "linkat", "symlink", "symlinkat", "fchmod", "chmod"),
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return trees of modules with an old module file, a link to it, a link that leads elsewhere, and a new class."""
    top = tmp_path / "modules"
    for name in ("all", "lang", "tools"):
        (top / name).mkdir(parents=True)
    bring_back(top)
    return top


def bring_back(top: Path) -> None:
    for path in top.glob("*/*"):
        path.unlink()
    (top / "all" / "1.0.lua").write_text("old\n")
    (top / "all" / "1.0.lua").chmod(0o640)
    (top / "lang" / "1.0.lua").symlink_to("elsewhere.lua")


def text(top: Path) -> str:
    return (top / "all" / "1.0.lua").read_text()


def write(top: Path) -> ModuleFiles:
    files = ModuleFiles()
    files.write(top / "all" / "1.0.lua", "new\n")
    for name in ("lang", "tools"):
        files.link(top / name / "1.0.lua", top / "all" / "1.0.lua")
    return files


def test_what_is_kept_leaves_nothing_else_and_a_draft_is_no_module(top: Path) -> None:
    write(top).keep()
    assert text(top) == "new\n"
    assert (top / "all" / "1.0.lua").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in top.glob("*/*")) == ["1.0.lua"] * 3
    assert (top / "lang" / "1.0.lua").resolve() == top / "all" / "1.0.lua"
    names = [path.name for path in helper_names(top / "all" / "1.0.lua")]
    assert all(name.startswith(".") and not name.endswith(".lua") for name in names)


def test_what_is_taken_back_is_as_it_was(top: Path, tmp_path: Path) -> None:
    before = snapshot(top)
    files = write(top)
    files.undo()
    (top / "tools").mkdir(exist_ok=True)
    assert snapshot(top) == before
    files.undo()
    files.keep()
    assert text(top) == "old\n"
    (tmp_path / "all" / "Demo").mkdir(parents=True)
    files = ModuleFiles()
    files.write(tmp_path / "all" / "Demo" / "1.0.lua", "new\n")
    files.undo()
    assert not (tmp_path / "all" / "Demo").exists()


def test_without_hard_links_the_earlier_one_is_copied(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_arguments: object, **_more: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    before = snapshot(top)
    write(top).undo()
    (top / "tools").mkdir(exist_ok=True)
    assert snapshot(top) == before


def test_a_full_disk_leaves_the_earlier_one(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    before = snapshot(top)
    monkeypatch.setattr(os, "fsync", full)
    files = ModuleFiles()
    with pytest.raises(InstallError, match=r"writing the module file .*: No space left on device"):
        files.write(top / "all" / "1.0.lua", "new\n")
    assert text(top) == "old\n"
    files.undo()
    assert snapshot(top) == before


@pytest.mark.parametrize("points", ["drawn", pytest.param("every", marks=pytest.mark.slow)])
@pytest.mark.parametrize("end", ["keep", "undo"])
def test_killed_anywhere_a_file_is_whole(top: Path, tmp_path: Path, need: Need, end: str, points: str) -> None:
    """kill -9 at the system calls that change the file system."""
    program = top.parent / "run.py"
    program.write_text(RUN)
    killing = Killing(need("strace"), [sys.executable, "-B", program, top, end])
    # of the files in the trees alone
    paths = [str(path) for name in ("all", "lang", "tools") for path in helper_and_own(top / name / "1.0.lua")]
    only = [word for path in paths for word in ("-P", path)]
    bring_back(top)
    changes = killing.points(tmp_path / "log", CHANGES, *only)
    assert len(changes) > 10
    seen = {text(top)}
    for point in changes if points == "every" else drawn(f"module file, {end}", changes, 3):
        bring_back(top)
        assert killing.at(point, *only)
        state = text(top)
        assert state in ("old\n", "new\n" * 1000), point
        assert (top / "lang" / "1.0.lua").is_symlink(), point
        seen.add(state)
        subprocess.run([sys.executable, "-B", program, top, "keep"], check=True)
        assert sorted(path.name for path in top.glob("*/*")) == ["1.0.lua"] * 3, point
    assert points == "drawn" or len(seen) == 2


def helper_and_own(path: Path) -> tuple[Path, ...]:
    return (path, *helper_names(path))


def test_what_was_written_is_recorded_with_its_hash(space: SoftwareSpace) -> None:
    names_of = named(space, "Demo/1")
    files = dict.fromkeys(names_of["module_files"], "")
    root = make_installation(space, "Demo/1", **{**names_of, "module_files": files})
    (root / "share").chmod(0o555)  # as after --read-only-installdir
    mode = mode_of(root / MANIFEST)
    record_module_files(root)
    manifest = read_manifest(root)
    assert manifest
    assert manifest.module_files == names_of["module_files"]
    assert (mode_of(root / MANIFEST), mode_of(root / "share")) == (mode, 0o555)


def test_of_a_manifest_without_names_nothing_is_recorded(space: SoftwareSpace, tmp_path: Path) -> None:
    root = make_installation(space, "Demo/1")
    before = snapshot(root)
    record_module_files(root)
    record_module_files(tmp_path)
    assert snapshot(root) == before


def test_a_run_killed_while_recording_leaves_nothing(space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    names_of = named(space, "Demo/1")
    names_of["module_files"] = dict.fromkeys(names_of["module_files"], "")
    root = make_installation(space, "Demo/1", **names_of)
    before = sorted(root.rglob("*"))

    def die(self: Path, _target: Path) -> None:
        left.extend(self.relative_to(root).parts)
        raise KeyboardInterrupt

    left: list[str] = []
    monkeypatch.setattr(Path, "replace", die)
    monkeypatch.setattr(Path, "unlink", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        record_module_files(root)
    monkeypatch.undo()
    assert len(left) == 1
    assert left[0].startswith(OURS)
    settle(root)
    assert sorted(root.rglob("*")) == before


def test_a_module_file_that_can_not_be_read_is_named(space: SoftwareSpace) -> None:
    names_of = named(space, "Demo/1")
    names_of["module_files"] = dict.fromkeys(names_of["module_files"], "")
    root = make_installation(space, "Demo/1", **names_of)
    file = Path(next(iter(names_of["module_files"])))
    file.unlink()
    with pytest.raises(InstallError, match=f"the module file '{file}' can't be read: No such file"):
        record_module_files(root)
