"""A project's shared installation, as far as one user can see it: groups, umasks and setgid folders.

There is one ordinary user on the testbed, and it can't become another one without being root. So these tests look at
the bits that decide what the members of the group may do, and at what is said where a bit is missing. In a user
namespace the user can give files to another one, who is not there.
"""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, User, make_user

LOAD = f"module load {DEMO_MODULE}"


def project_group() -> int:
    """A group of the user that is not the one that new files get; in a single group it is that one."""
    return next((group for group in os.getgroups() if group != os.getgid()), os.getgid())


def setgid_space(tmp_path: Path) -> User:
    """A software space of a project: setgid folders that its group may write to."""
    user = make_user(tmp_path / "eb")
    for path in (user.prefix, *(path for path in user.prefix.rglob("*") if path.is_dir())):
        os.chown(path, -1, project_group())
        path.chmod(0o2770)
    return user


def modes(top: Path) -> dict[Path, int]:
    """Mode of everything below a folder and of itself, without symbolic links."""
    return {path: path.lstat().st_mode for path in [top, *top.rglob("*")] if not path.is_symlink()}


def shared(path: Path) -> bool:
    """Whether it is neither EasyBuild's own nor something that other tools make with modes of their own."""
    copied = path.name.lower().startswith("activate")  # by Python's venv, with the mode of its templates
    return "easybuild" not in path.parts and path.suffix != ".sif" and not copied


STEPS = (
    ("a package installed", "pip install --no-index {wheel}"),
    ("packed", "make-squashfs --remove-directory"),
    ("unpacked", "unmake-squashfs"),
    ("replaced", "make-squashfs --replace; make-squashfs --rollback; make-squashfs --rollback"),
    ("a layer", "make-squashfs --replace --remove-directory; add-layer"),
    ("taken away and put back", "remove-layer; remove-layer --rollback; make-squashfs --remove-directory"),
    ("one file again", "flatten-layers; flatten-layers --rollback; flatten-layers"),
    ("in use again", "unmake-squashfs"),
)


@pytest.mark.parametrize(
    ("umask", "steps"), [("002", STEPS[:4]), pytest.param("007", STEPS, marks=pytest.mark.slow)], ids=["002", "007"]
)
def test_files_belong_to_the_group(tmp_path: Path, wheel: Path, umask: str, steps: tuple[tuple[str, str], ...]) -> None:
    """With the group's umask, everything can be read and written by the group, and belongs to it."""
    user = setgid_space(tmp_path)
    root = user.installdir(DEMO_MODULE)
    user.run(f"umask {umask}; eb --umask={umask} --group-writable-installdir --set-gid-bit {DEMO_EASYCONFIG}")

    def check(state: str) -> None:
        found = {path: mode for path, mode in modes(root).items() if shared(path.relative_to(root.parent))}
        assert len(found) > 20
        folders = [path for path, mode in found.items() if stat.S_ISDIR(mode)]
        unused = root / "user-software" if state == "replaced" else None  # nobody may write there
        closed = [path for path in found if not found[path] & stat.S_IWGRP and unused not in (path, *path.parents)]
        assert closed == [], state
        assert [path for path in found if not found[path] & stat.S_IRGRP] == [], state
        assert [path for path in found if found[path] & stat.S_IWOTH] == [], state
        assert [path for path in folders if not found[path] & stat.S_ISGID] == [], state
        # EasyBuild moves its logs here with the group that they had
        ours = [path for path in root.rglob("*") if "easybuild" not in path.parts[-4:]]
        assert [path for path in ours if path.lstat().st_gid != project_group()] == [], state
        # those of its own records too, which it moves from a folder of the user's: else no other member could remove it
        records = [path for path in (root / "easybuild").rglob("*") if path.is_dir()]
        closed = [path for path in records if path.stat().st_mode & 0o2020 != 0o2020]
        others = [path for path in root.rglob("*") if path.is_dir() and path.stat().st_gid != project_group()]
        assert (closed, others) == ([], []), state
        if umask == "007":
            # pip makes its scripts executable for all, in folders that are closed
            assert [path for path in folders if found[path] & stat.S_IRWXO] == [], state

    check("installed")
    for state, command in steps:
        user.run(f"umask {umask}; {LOAD}; {command.format(wheel=wheel)}")
        check(state)
    assert (root / "user-software").is_dir()
    assert user.out(f"{LOAD}; python -B -c 'import greeting; print(greeting.greet())'") == "hello"


def give(path: Path, owner: str, mode: str) -> None:
    """Give a tree to owner:group, and set its modes: 0 is the user or the user's group, 1 is somebody else."""
    script = 'chown -Rh "$2" "$1" && chmod -R "$3" "$1"'
    as_root = ["unshare", "--user", "--map-root-user", "--map-auto"]
    subprocess.run([*as_root, "bash", "-c", script, "give", path, owner, mode], check=True)


@pytest.mark.slow
def test_an_installation_of_another_member(own_demo: User, wheel: Path) -> None:
    root = own_demo.installdir(DEMO_MODULE)
    try:
        give(root, "1:1", "go-w")
        for command in ("make-squashfs", "unmake-squashfs"):
            done = own_demo.run(f"{LOAD}; {command}", status=9)
            assert "for group write permission, ask its owner" in done.stderr
        done = own_demo.run(f"eb --rebuild {DEMO_EASYCONFIG}", check=False)
        assert done.returncode != 0
        assert f"you may not write to '{root}', which belongs to" in done.stdout + done.stderr
        assert own_demo.out(f"{LOAD}; python -c 'import sys; print(sys.prefix)'") == "/user-software/venv/demo"

        give(root, "1:0", "g+rwXs")
        own_demo.run(f"umask 002; {LOAD}; pip install --no-index {wheel}")
        own_demo.run(f"umask 002; {LOAD}; make-squashfs --remove-directory; unmake-squashfs; make-squashfs --replace")
        give(root, "1:0", "g+rwXs")
        own_demo.run(
            f"umask 002; {LOAD}; make-squashfs --rollback; cd $CONTAINERROOT; chmod -R u+w user-software; "
            "rm -r user-software; unmake-squashfs"
        )
        give(root / "easybuild" / DEMO_EASYCONFIG, "1:0", "644")  # as EasyBuild copies that of an installed package
        own_demo.run(f"umask 002; eb --umask=002 --group-writable-installdir --set-gid-bit --rebuild {DEMO_EASYCONFIG}")
        assert own_demo.out(f"{LOAD}; python -B -c 'import greeting; print(greeting.greet())'") == "hello"
    finally:
        give(root, "0:0", "u+rwX")


@pytest.mark.slow
def test_one_that_was_made_without_group_writable_installdir_is_left_as_it_is(own_demo: User) -> None:
    """With the umask of a group alone, EasyBuild takes write permission from the folders in it."""
    root = own_demo.installdir(DEMO_MODULE)
    try:
        give(root, "1:0", "g+rwXs")
        for folder in (path for path in root.iterdir() if path.is_dir() and not path.name.startswith("user-")):
            give(folder, "1:0", "g-w")

        def names() -> set[Path]:
            found = (path for top in ("software", "modules") for path in (own_demo.prefix / top).rglob("*"))
            return {path for path in found if ".locks" not in path.parts}

        before = names()
        for command in (f"eb --rebuild {DEMO_EASYCONFIG}", f"sifmod remove {DEMO_MODULE} --yes"):
            done = own_demo.run(f"umask 002; {command}", check=False)
            said = " ".join((done.stdout + done.stderr).split())
            assert done.returncode != 0, command
            assert "which belongs to" in said, command
            assert "eb --group-writable-installdir --set-gid-bit. Nothing was changed" in said, command
        assert names() == before
    finally:
        give(root, "0:0", "u+rwX")


@pytest.mark.slow
def test_a_copy_of_the_easyconfig_that_is_read_only_is_replaced(own_demo: User) -> None:
    copy = own_demo.installdir(DEMO_MODULE) / "easybuild" / DEMO_EASYCONFIG
    copy.chmod(0o444)
    own_demo.eb(DEMO_EASYCONFIG, "--rebuild")
    assert "ContainerImage" in copy.read_text()


@pytest.mark.slow
def test_packages_of_two_members_are_packed_and_unpacked_by_one_of_them(own_demo: User, wheel: Path) -> None:
    root = own_demo.installdir(DEMO_MODULE)
    theirs = root / "user-software/venv/demo/include"
    try:
        own_demo.run(f"umask 002; {LOAD}; pip install --no-index {wheel}")
        give(theirs, "1:0", "g+rwXs")
        packed = own_demo.run(f"umask 002; {LOAD}; make-squashfs")
        assert "not all folders" in packed.stderr
        assert "nothing can be written there" not in packed.stdout
        assert not (root / "user-software/venv").stat().st_mode & 0o222
        done = own_demo.run(f"umask 002; {LOAD}; unmake-squashfs")
        assert "is in use again" in done.stdout
        assert "chmod" not in done.stderr
        own_demo.run(f"umask 002; {LOAD}; make-squashfs --replace")
        # as if the other member had packed: their folders are read-only, and only they can change that
        give(theirs, "1:0", "a-w")
        done = own_demo.run(f"umask 002; {LOAD}; unmake-squashfs", status=9)
        assert "which stay read-only. Ask " in done.stderr
        assert " to run unmake-squashfs." in done.stderr
        assert not (root / "user-software/venv").stat().st_mode & 0o222, "what was changed for it is as before"
        assert own_demo.out(f"{LOAD}; python -B -c 'import greeting; print(greeting.greet())'") == "hello"
    finally:
        give(root, "0:0", "u+rwX")


@pytest.mark.slow
def test_easybuilds_permissions_do_not_reach_what_users_made(own_demo: User) -> None:
    """Its options for a group and for nobody: users' own modes are theirs, also those of a file that is read-only."""
    root = own_demo.installdir(DEMO_MODULE)
    assert not root.stat().st_mode & stat.S_IWGRP
    own = root / "user-software" / "own"
    own.mkdir()
    (own / "secret").write_text("x")
    (own / "secret").chmod(0o600)
    (own / "read-only").write_text("x")
    (own / "read-only").chmod(0o444)
    own.chmod(0o700)
    before = modes(root / "user-software")
    own_demo.run(f"eb --group-writable-installdir --set-gid-bit --rebuild {DEMO_EASYCONFIG}")
    for path in (root, root / "bin", root / "bin" / "python", root / "share", root / "share" / "sifmod.json"):
        assert path.stat().st_mode & stat.S_IWGRP, path
        assert not path.stat().st_mode & stat.S_IWOTH, path
    assert modes(root / "user-software") == before

    for _ in range(2):  # EasyBuild makes a read-only installation writable before it installs again
        own_demo.run(f"eb --read-only-installdir --rebuild {DEMO_EASYCONFIG}")
        writable = {path.relative_to(root) for path, mode in modes(root).items() if mode & 0o222}
        # EasyBuild's own report gets there last
        users = ("user-software", "user-bin", "easybuild")
        assert {path for path in writable if path.parts[:1] not in {(name,) for name in users}} == set()
        assert modes(root / "user-software") == before
        assert [path for path in root.iterdir() if path.name.startswith(".")] == []
    done = own_demo.run(f"{LOAD}; make-squashfs", status=9)
    assert f"chmod u+w '{root}'" in done.stderr
    own_demo.run(f"{LOAD}; chmod u+w $CONTAINERROOT; make-squashfs --remove-directory; unmake-squashfs")
    assert modes(root / "user-software") == before


def test_a_lock_that_another_member_made_private_is_named(own_demo: User) -> None:
    """The other member's umask was 077."""
    root = own_demo.installdir(DEMO_MODULE)
    lock = root / ".user-software.lock"
    lock.touch()
    give(lock, "1:1", "0600")
    try:
        done = own_demo.run(f"{LOAD}; make-squashfs", check=False)
    finally:
        lock.unlink()
    assert done.returncode == 9
    assert str(lock) in done.stderr
    assert "group" in done.stderr


def test_a_lock_that_can_only_be_read_serves(own_demo: User) -> None:
    lock = own_demo.installdir(DEMO_MODULE) / ".user-software.lock"
    lock.touch()
    lock.chmod(0o444)
    try:
        assert own_demo.run(f"{LOAD}; unmake-squashfs", check=False).returncode == 2
        held = own_demo.run(f"{LOAD}; flock {lock} $CONTAINERROOT/bin/unmake-squashfs", check=False)
    finally:
        lock.unlink()
    assert held.returncode == 7
