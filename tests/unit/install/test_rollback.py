"""The journal is data of whoever may write to the installation: nothing outside is touched on its word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sifmod.errors import InstallError
from sifmod.install.rollback import remember, undo

from ..support import snapshot


@pytest.fixture
def installdir(tmp_path: Path) -> Path:
    """Return an installation with a victim beside it."""
    root = tmp_path / "Demo" / "1.0"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("old")
    (root / ".sifmod-previous").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("precious")
    (tmp_path / "victim" / "tool").write_text("precious")
    return root


def write_journal(installdir: Path, **changes: object) -> None:
    journal = {"run": "another", "kept": [], "new": [], "renames": [], "free": [], **changes}
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
    ],
    ids=str,
)
def test_what_a_journal_names_outside_is_refused_before_anything_is_done(
    installdir: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    text = json.dumps(changes).replace("{victim}", str(tmp_path / "victim"))
    (installdir / "user-software").mkdir()
    (installdir / "user-software.squashfs").touch()
    (installdir / "user-software-1").touch()
    write_journal(installdir, **json.loads(text))
    before = snapshot(tmp_path)
    with pytest.raises(InstallError, match="restoring the earlier installation failed"):
        undo(installdir)
    assert snapshot(tmp_path) == before


def test_a_link_in_the_installation_leads_nowhere(installdir: Path, tmp_path: Path) -> None:
    write_journal(installdir, new=["bin/tool"])
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin").rmdir()
    (installdir / "bin").symlink_to(tmp_path / "victim")
    with pytest.raises(InstallError, match="'bin' is a symbolic link"):
        undo(installdir)
    with pytest.raises(InstallError, match="'bin' is a symbolic link"):
        remember(installdir, ["bin/tool"])
    assert (tmp_path / "victim" / "tool").read_text() == "precious"


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
        undo(installdir)
    assert (installdir / "bin" / "tool").read_text() == "old"


def test_a_folder_of_the_past_that_is_a_link_is_not_emptied(installdir: Path, tmp_path: Path) -> None:
    (installdir / ".sifmod-previous").rmdir()
    (installdir / ".sifmod-previous").symlink_to(tmp_path / "victim")
    remember(installdir, ["bin/tool", "bin/new"])
    assert sorted(path.name for path in (tmp_path / "victim").iterdir()) == ["file", "tool"]
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin" / "tool").write_text("new")
    undo(installdir)
    assert (installdir / "bin" / "tool").read_text() == "old"


def test_a_file_that_is_a_link_is_kept_as_a_link(installdir: Path, tmp_path: Path) -> None:
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin" / "tool").symlink_to(tmp_path / "victim" / "file")
    remember(installdir, ["bin/tool"])
    (installdir / "bin" / "tool").unlink()
    (installdir / "bin" / "tool").write_text("new")
    undo(installdir)
    assert (installdir / "bin" / "tool").readlink() == tmp_path / "victim" / "file"
    assert (tmp_path / "victim" / "file").read_text() == "precious"
