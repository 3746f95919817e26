"""What is the users' in an installation, and its permission bits."""

import stat
from pathlib import Path

import pytest
from tests.programs import write_file, write_program

from sifmod.errors import InstallError
from sifmod.host.runtime import ContainerRuntime
from sifmod.usersoftware import tree
from sifmod.usersoftware.tree import (
    make_user_software,
    packages_in,
    restore_modes,
    set_aside,
    split_installation,
    user_modes,
)

from ..support import a_spec


def test_what_is_the_users_is_told_from_the_rest(tmp_path: Path) -> None:
    users = [".user-software.lock", "user-software", "user-software-python3.9", "user-software.squashfs.previous"]
    rest = ["bin", "demo.sif", "users"]
    for name in (*users, *rest):
        (tmp_path / name).touch()
    assert [[path.name for path in part] for part in split_installation(tmp_path)] == [users, rest]
    assert split_installation(tmp_path / "not there") == ([], [])


def test_modes_of_users_files_are_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "user-software" / "venv"
    write_file(folder / "read-only").chmod(0o444)
    (folder / "gone").touch()
    (folder / "link").symlink_to("nowhere")
    folder.chmod(0o2750)
    private = tmp_path.parent / "private"
    private.touch(mode=0o600)
    write_file(folder / "swapped").chmod(0o666)
    before = user_modes(tmp_path)
    folder.chmod(0o700)
    (folder / "swapped").unlink()
    (folder / "swapped").symlink_to(private)
    (folder / "read-only").chmod(0o666)
    (folder / "gone").unlink()
    restore_modes(tmp_path, before)
    assert stat.S_IMODE((folder / "read-only").stat().st_mode) == 0o444
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2750
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def aside(installdir: Path) -> list[str]:
    noted: list[Path] = []
    renames = set_aside(installdir, "3.10", note=lambda renames: noted.extend(new for _old, new in renames))
    assert noted == [new for _old, new in renames]
    return sorted(path.name for path in noted if path.exists())


def test_the_list_of_what_is_set_aside_is_that_of_what_is_in_use(tmp_path: Path) -> None:
    """Beside a packed file in use there may be a directory that is half removed."""
    (tmp_path / "user-software" / "venv" / "demo").mkdir(parents=True)
    (tmp_path / "user-software.squashfs").touch()
    (tmp_path / "user-software.txt").write_text("packed==1\n")
    stem = "user-software-python3.10"
    assert aside(tmp_path) == [stem, f"{stem}.squashfs", f"{stem}.txt"]
    assert (tmp_path / f"{stem}.txt").read_text() == "packed==1\n"


def test_a_directory_in_use_is_listed_anew(tmp_path: Path) -> None:
    info = tmp_path / "user-software/venv/demo/lib/python3.10/site-packages/mine-2.dist-info"
    write_file(info / "METADATA", "Metadata-Version: 2.1\nName: mine\nVersion: 2\n")
    (tmp_path / "user-software.squashfs").touch()
    (tmp_path / "user-software.unpacked").touch()
    (tmp_path / "user-software.txt").write_text("packed==1\n")
    aside(tmp_path)
    assert (tmp_path / "user-software-python3.10.txt").read_text() == "mine==2\n"


def test_a_package_that_is_an_option_of_pip_is_not_listed(tmp_path: Path) -> None:
    for number, name in enumerate(("greeting", "--index-url=http://evil", "../x", "a b")):
        info = tmp_path / f"venv/demo/lib/python3.11/site-packages/x{number}-1.dist-info"
        write_file(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    assert packages_in(tmp_path) == "greeting==1.0\n"


@pytest.mark.timeout(240)  # it would wait for ever
def test_an_image_whose_python_sleeps_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = write_program(tmp_path / "runtime", "#!/bin/sh\nexec sleep 1000\n")
    monkeypatch.setattr(tree, "WRITE_FROM_CONTAINER", 0.1)
    with pytest.raises(InstallError, match=r"did not end within 0\.1 seconds"):
        make_user_software(tmp_path / "us", tmp_path / "rs", tmp_path / "x.sif", ContainerRuntime(runtime), a_spec())
