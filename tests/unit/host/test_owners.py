"""Who else may change a file is said."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from sifmod.host import owners
from sifmod.host.owners import no_permission, other_writers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file that exists."""
    path = tmp_path / "file"
    path.write_text("old")
    return path


@pytest.mark.parametrize(
    ("mode", "writers"), [(0o644, ""), (0o600, ""), (0o666, "everybody"), (0o664, "the group"), (0o646, "everybody")]
)
def test_who_else_may_write_is_said(path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, writers: str) -> None:
    monkeypatch.setattr(owners, "_is_own_group", lambda _number: False)
    path.touch()
    path.chmod(mode)
    assert other_writers(path).startswith(writers)
    assert bool(other_writers(path)) == bool(writers)


def test_a_group_of_the_user_alone_is_nobody_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user, group = pwd.getpwuid(os.geteuid()).pw_name, path.parent.stat().st_gid
    path.touch()
    path.chmod(0o664)

    def groups(name: str, members: list[str]) -> None:
        monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((name, "x", number, members)))

    groups(user, [user])
    assert other_writers(path) == ""
    groups(user, ["somebody"])
    assert other_writers(path) == f"the group {user}"
    groups("project", [])
    assert other_writers(path) == "the group project"
    assert path.stat().st_gid == group


def test_a_file_of_another_user_is_theirs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    path.chmod(0o600)
    owner = path.stat().st_uid or 1
    os.chown(path, owner, -1) if os.geteuid() == 0 else None
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert other_writers(path).startswith("its owner ")


def test_names_in_a_sticky_folder_are_not_changed_by_others(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(0o1777)
    assert other_writers(tmp_path / "folder") == ""


def test_who_may_give_permission_is_said(tmp_path: Path) -> None:
    said = str(no_permission(tmp_path, "ask its owner, or help@centre.example"))
    assert f"belongs to {tmp_path.owner()}: for group write permission, ask its owner, or help@centre.example; " in said
