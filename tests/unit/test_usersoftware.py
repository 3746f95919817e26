"""What is the users' in an installation, and its permission bits."""

from __future__ import annotations

import stat
from pathlib import Path

from sifmod.usersoftware import restore_modes, split_installation, user_modes


def test_what_is_the_users_is_told_from_the_rest(tmp_path: Path) -> None:
    users = [".user-software.lock", "user-software", "user-software-python3.9", "user-software.squashfs.previous"]
    rest = ["bin", "demo.sif", "users"]
    for name in (*users, *rest):
        (tmp_path / name).touch()
    assert [[path.name for path in part] for part in split_installation(tmp_path)] == [users, rest]
    assert split_installation(tmp_path / "not there") == ([], [])


def test_modes_of_users_files_are_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "user-software" / "venv"
    folder.mkdir(parents=True)
    (folder / "read-only").touch(0o444)
    (folder / "gone").touch()
    (folder / "link").symlink_to("nowhere")
    folder.chmod(0o2750)
    before = user_modes(tmp_path)
    folder.chmod(0o700)
    (folder / "read-only").chmod(0o666)
    (folder / "gone").unlink()
    restore_modes(before)
    assert stat.S_IMODE((folder / "read-only").stat().st_mode) == 0o444
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2750
