"""The journal is data of whoever may write to the installation: nothing outside is touched on its word."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import write_file

from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError
from sifmod.install.manifest import read_manifest
from sifmod.install.rollback import forget, remember, remember_renames, settle, undo

from ..support import make_installation, snapshot


@pytest.fixture
def installdir(tmp_path: Path) -> Path:
    """Return an installation with a victim beside it."""
    root = tmp_path / "Demo" / "1.0"
    write_file(root / "bin" / "tool", "old")
    (root / ".sifmod-previous").mkdir()
    write_file(tmp_path / "victim" / "file", "precious")
    (tmp_path / "victim" / "tool").write_text("precious")
    return root


def write_journal(installdir: Path, **changes: object) -> None:
    journal = {"run": "another", "manifest": "0" * 64, "kept": [], "new": [], "renames": [], "free": [], **changes}
    (installdir / ".sifmod-previous" / "journal.json").write_text(json.dumps(journal))


@pytest.mark.parametrize(
    "changes",
    [
        {"new": ["../../victim/file"]},
        {"new": ["{victim}/file"]},
        {"new": ["bin/tool", "bin/../../../victim/file"]},
        {"new": ["user-software.squashfs"]},
        {"kept": ["../../../victim/file"]},
        {"kept": ["{victim}/file"]},
        {"renames": [["{victim}/file", "user-software-python3.10"]]},
        {"renames": [["user-software", "{victim}"]]},
        {"renames": [["user-software", "../../victim"]]},
        {"renames": [["bin", "user-software"]]},
        {"renames": [["user-software", "user-software-1"]], "free": ["{victim}/file"]},
        {"free": ["../../victim"]},
        {"new": [["bin/tool"]]},
        {"new": 1},
        {"renames": [["user-software"]]},
        {"run": 1},
        {"manifest": None},
    ],
    ids=str,
)
def test_a_journal_of_files_outside_is_refused(installdir: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    text = json.dumps(changes).replace("{victim}", str(tmp_path / "victim"))
    (installdir / "user-software").mkdir()
    (installdir / "user-software.squashfs").touch()
    (installdir / "user-software-1").touch()
    write_journal(installdir, **json.loads(text))
    before = snapshot(tmp_path)
    with pytest.raises(InstallError, match="what it left can't be used"):
        settle(installdir)
    assert snapshot(tmp_path) == before


def test_a_link_in_the_installation_leads_nowhere(installdir: Path, tmp_path: Path) -> None:
    write_journal(installdir, new=["bin/tool"])
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin").rmdir()
    (installdir / "bin").symlink_to(tmp_path / "victim")
    with pytest.raises(InstallError, match="'bin' is a symbolic link"):
        settle(installdir)
    with pytest.raises(InstallError, match="'bin' is a symbolic link"):
        remember(installdir, ["bin/tool"], manifest="")
    assert (tmp_path / "victim" / "tool").read_text() == "precious"


@pytest.mark.timeout(240)  # reading a FIFO would wait for a writer
def test_a_journal_that_is_a_fifo_is_not_read(installdir: Path) -> None:
    write_journal(installdir)
    journal = installdir / ".sifmod-previous" / "journal.json"
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(InstallError, match="not a plain file"):
        settle(installdir)


@pytest.mark.parametrize("of", ["folder", "journal"])
def test_a_journal_behind_a_link_is_not_read(installdir: Path, tmp_path: Path, of: str) -> None:
    write_journal(installdir, new=["bin/tool"])
    if of == "folder":
        (installdir / ".sifmod-previous").rename(tmp_path / "previous")
        (installdir / ".sifmod-previous").symlink_to(tmp_path / "previous")
    else:
        (installdir / ".sifmod-previous" / "journal.json").rename(tmp_path / "journal")
        (installdir / ".sifmod-previous" / "journal.json").symlink_to(tmp_path / "journal")
    with pytest.raises(InstallError, match="symbolic link"):
        settle(installdir)
    with pytest.raises(InstallError, match="symbolic link"):
        undo(installdir)
    assert (installdir / "bin" / "tool").read_text() == "old"


def test_a_folder_of_the_past_that_is_a_link_is_not_emptied(installdir: Path, tmp_path: Path) -> None:
    (installdir / ".sifmod-previous").rmdir()
    (installdir / ".sifmod-previous").symlink_to(tmp_path / "victim")
    remember(installdir, ["bin/tool", "bin/new"], manifest="")
    assert sorted(path.name for path in (tmp_path / "victim").iterdir()) == ["file", "tool"]
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin" / "tool").write_text("new")
    undo(installdir)
    assert (installdir / "bin" / "tool").read_text() == "old"


def test_a_file_that_is_a_link_is_kept_as_a_link(installdir: Path, tmp_path: Path) -> None:
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin" / "tool").symlink_to(tmp_path / "victim" / "file")
    remember(installdir, ["bin/tool"], manifest="")
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin" / "tool").write_text("new")
    undo(installdir)
    assert (installdir / "bin" / "tool").readlink() == tmp_path / "victim" / "file"
    assert (tmp_path / "victim" / "file").read_text() == "precious"


# What an earlier run has left


@pytest.fixture
def replaced(space: SoftwareSpace) -> Path:
    """Return an installation that a run with another image was about to replace, and was killed."""
    root = make_installation(space, "Demo/1.0")
    manifest = read_manifest(root)
    assert manifest
    new = replace(manifest, image="new.sif", files=("new.sif", "share/container.sh", "share/sifmod.json"))
    script = (
        "import sys; from pathlib import Path; from sifmod.install.rollback import remember;"
        "root, text, *files = sys.argv[1:]; remember(Path(root), files, manifest=text)"
    )
    names = sorted({*manifest.files, *new.files})
    subprocess.run([sys.executable, "-c", script, root, new.text, *names], check=True)
    (root.parent / "new.json").write_text(new.text)
    return root


def put_in_place(root: Path) -> None:
    """Do what the killed run had still to do, but for the removal of what only the old installation has."""
    for name in ("new.sif", "share/container.sh"):
        (root / f"{name}.draft").write_text("new")
        (root / f"{name}.draft").replace(root / name)
    (root.parent / "new.json").replace(root / "share" / "sifmod.json")


def test_a_failed_run_undoes_nothing_of_an_earlier_one(replaced: Path) -> None:
    put_in_place(replaced)
    before = snapshot(replaced)
    undo(replaced)
    assert snapshot(replaced) == before


def test_what_an_earlier_run_has_installed_altogether_stays(replaced: Path) -> None:
    put_in_place(replaced)
    (replaced / "user-software" / "weeks").write_text("of work")
    said = settle(replaced)
    assert said == f"an earlier eb ended after it had replaced '{replaced}': what it installed is kept"
    assert (replaced / "new.sif").read_text() == "new"
    assert (replaced / "user-software" / "weeks").read_text() == "of work"
    assert not (replaced / "demo.sif").exists()
    assert not (replaced / "bin" / "start-shell").exists()
    assert not list(replaced.glob(".sifmod*"))
    assert settle(replaced) == ""


def test_what_an_earlier_run_has_installed_in_part_is_put_back(replaced: Path) -> None:
    (replaced / "new.sif").write_text("new")
    (replaced / "share" / "container.sh").unlink()
    assert settle(replaced).endswith("the installation before it was restored")
    assert (replaced / "share" / "container.sh").read_text() == f"# settings of {replaced}\n"
    assert not (replaced / "new.sif").exists()
    assert read_manifest(replaced)
    assert not list(replaced.glob(".sifmod*"))


def test_user_software_that_stands_in_the_way_is_set_aside_and_named(replaced: Path) -> None:
    old = replaced / "user-software-python3.10"
    (replaced / "user-software").rename(old)
    write_file(replaced / "user-software" / "weeks", "of work")
    journal = replaced / ".sifmod-previous" / "journal.json"
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "renames": [["user-software", old.name]]}))
    said = settle(replaced)
    assert f"user software made since then is now {replaced}/user-software-undone1" in said
    assert (replaced / "user-software-undone1" / "weeks").read_text() == "of work"
    assert (replaced / "user-software" / "venv").is_dir()


def test_what_a_killed_or_failed_run_has_made_goes(installdir: Path) -> None:
    closed = installdir / ".sifmod-stage" / "user-software" / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0)
    assert settle(installdir) == ""
    assert not list(installdir.glob(".sifmod*"))
    remember(installdir, ["bin/tool"], manifest="")
    remember_renames(installdir, (), ["user-software"])
    (installdir / "user-software").mkdir()
    undo(installdir)
    assert not (installdir / "user-software").exists()
    forget(installdir)
