import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import write_file, write_program
from tests.sampling import drawn

from sifmod import names
from sifmod.eb.space import SoftwareSpace, software_space
from sifmod.errors import InstallError
from sifmod.install.manifest import read_manifest
from sifmod.install.rollback import settle
from sifmod.installed.installation import find_installation, find_installations
from sifmod.installed.lock import hold_lock
from sifmod.installed.removal import Removal, remove_leftovers
from sifmod.usersoftware.tree import user_modes

from ..support import SQUASHFS, Killing, Need, make_installation, module_text, named, snapshot

MODULE = "Demo/1.0-x"


@pytest.fixture
def root(space: SoftwareSpace) -> Path:
    return make_installation(space, MODULE)


def software(space: SoftwareSpace) -> list[str]:
    """Return what is in the folder of installations, without that of locks, which EasyBuild too leaves empty."""
    assert not list((space.software / ".locks").glob("*"))
    return [path.name for path in space.software.iterdir() if path.name != ".locks"]


def list_file(root: Path, name: str) -> None:
    """Have the manifest name one more file."""
    manifest = read_manifest(root)
    assert manifest
    (root / names.MANIFEST).write_text(replace(manifest, files=(*manifest.files, name)).text)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def removal(space: SoftwareSpace, root: Path, said: list[str]) -> Removal:
    return Removal(find_installation(space, str(root)), say=said.append)


def test_a_removal_takes_all_of_a_module_alone(space: SoftwareSpace, removal: Removal, tmp_path: Path) -> None:
    other = make_installation(space, "Demo/2")
    before = snapshot(other)
    removal.remove(keep=None)
    left = {str(path.relative_to(tmp_path)) for path in (tmp_path / "eb").rglob("*") if "/1.0-x" in str(path)}
    assert left == set()
    assert snapshot(other) == before
    assert [item.module for item in find_installations(space).installations] == ["Demo/2"]


def test_the_last_version_takes_its_folders_with_it(space: SoftwareSpace, removal: Removal) -> None:
    removal.remove(keep=None)
    assert software(space) == []
    assert not (space.modules / "all" / "Demo").exists()


def test_a_default_that_pointed_to_it_goes_too(space: SoftwareSpace, removal: Removal) -> None:
    folder = space.modules / "all" / "Demo"
    (folder / "default").symlink_to("1.0-x.lua")
    removal.remove(keep=None)
    assert not folder.exists()


def test_easybuild_s_backups_of_the_module_file_go_too(space: SoftwareSpace, removal: Removal, root: Path) -> None:
    folder = space.modules / "all" / "Demo"
    for name in ("1.0-x.bak_20261124190719_24534", ".1.0-x.bak_20261124190720_1", "1.0.bak_20261124190720_1"):
        (folder / name).write_text(module_text(root))
    (folder / "1.0-x.bak_20261124190721_1").write_text("another's")
    removal.remove(keep=None)
    assert sorted(path.name for path in folder.iterdir()) == ["1.0-x.bak_20261124190721_1", "1.0.bak_20261124190720_1"]


def test_links_to_commands_of_user_software_are_neither_users_own_nor_others(removal: Removal, root: Path) -> None:
    folder = root / "user-bin"
    write_file(folder / ".lock")
    (folder / "cowsay").symlink_to("../share/user-command")
    assert [*removal.users_own, *removal.others] == []
    (folder / "mine").write_text("precious")
    (folder / "link").symlink_to("../share/elsewhere")
    assert removal.others == (folder / "link", folder / "mine")
    with pytest.raises(InstallError, match="user-bin/link, user-bin/mine"):
        removal.remove(keep=None)
    removal.remove(keep=None, delete_others=True)
    assert not root.exists()


def test_a_link_in_place_of_the_folder_of_commands_is_refused(removal: Removal, root: Path, tmp_path: Path) -> None:
    (root / "user-bin").symlink_to(tmp_path)
    assert removal.others == (root / "user-bin",)


def test_links_in_the_tree_are_not_followed(removal: Removal, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write_file(outside / "precious", "precious")
    (root / "to-folder").symlink_to(outside)
    (root / "to-file").symlink_to(outside / "precious")
    (root / "user-software" / "venv" / "demo" / "to-folder").symlink_to(outside)
    removal.remove(keep=None, delete_others=True)
    assert (outside / "precious").read_text() == "precious"
    assert not root.exists()


def test_folders_without_write_permission_go_too(removal: Removal, root: Path) -> None:
    folder = root / "user-software" / "venv" / "demo" / "closed"
    write_file(folder / "inner" / "file")
    (folder / "inner").chmod(0o500)
    folder.chmod(0)
    removal.remove(keep=None)
    assert not root.exists()


@pytest.mark.parametrize("level", [0, 1])
def test_an_installation_behind_a_link_is_refused(space: SoftwareSpace, root: Path, tmp_path: Path, level: int) -> None:
    place = (root, root.parent)[level]
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    before = snapshot(elsewhere)
    removal = Removal(find_installation(space, str(root)), say=print)
    with pytest.raises(InstallError, match="is a link to"):
        removal.remove(keep=None)
    assert snapshot(elsewhere) == before
    assert removal.installation.module_files


def test_a_copy_under_another_name_is_refused(space: SoftwareSpace, root: Path) -> None:
    copy = root.with_name("copy")
    shutil.copytree(root, copy, symlinks=True)
    with pytest.raises(InstallError, match=r"is a copy of module .*: remove it by hand"):
        Removal(find_installation(space, str(copy)), say=print).remove(keep=None)
    assert copy.exists()


def test_an_installation_of_another_space_is_refused(root: Path, tmp_path: Path) -> None:
    elsewhere = SoftwareSpace(tmp_path / "other" / "software", tmp_path / "other" / "modules")
    with pytest.raises(InstallError, match="name its software space with --prefix"):
        Removal(find_installation(elsewhere, str(root)), say=print).remove(keep=None)
    assert root.exists()


def test_a_module_name_that_leads_out_is_refused(space: SoftwareSpace) -> None:
    root = make_installation(space, MODULE)
    manifest = root / names.MANIFEST
    manifest.write_text(manifest.read_text().replace(MODULE, "../../../etc"))
    with pytest.raises(InstallError, match="its module is"):
        Removal(find_installation(space, str(root)), say=print).remove(keep=None)
    assert root.exists()


def test_a_running_packer_is_waited_for(removal: Removal, root: Path) -> None:
    with (root / ".user-software.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InstallError, match="make-squashfs or unmake-squashfs is running"):
            removal.remove(keep=None)
    assert removal.installation.module_files
    assert root.exists()
    removal.remove(keep=None)


@pytest.mark.parametrize("make", [os.mkfifo, lambda lock: lock.symlink_to("nowhere")])
def test_a_lock_of_packing_that_is_no_file_is_named(removal: Removal, root: Path, make: Callable[[Path], None]) -> None:
    lock = root / names.USER_SOFTWARE_LOCK
    make(lock)
    with pytest.raises(InstallError, match=f"'{lock}' is no plain file"):
        removal.remove(keep=None)
    assert not (root / "nowhere").exists()


def test_a_running_eb_is_waited_for(space: SoftwareSpace, removal: Removal, root: Path) -> None:
    lock = space.software / ".locks" / (str(root).replace("/", "_") + ".lock")
    lock.mkdir(parents=True)
    with pytest.raises(InstallError, match=re.escape(str(lock))):
        removal.check()
    lock.rmdir()
    removal.check()


def test_easybuild_s_configured_lock_is_seen(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "xdg" / "easybuild.d" / "site.cfg", f"[override]\nlocks-dir = {tmp_path / 'locks'}\n")
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    space = software_space(root.parents[2])
    lock = tmp_path / "locks" / (str(root).replace("/", "_") + ".lock")
    lock.mkdir(parents=True)
    removal = Removal(find_installation(space, str(root)), say=print)
    with pytest.raises(InstallError, match=re.escape(str(lock))):
        removal.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_an_installation_that_easybuild_made_read_only_is_removed(removal: Removal, root: Path) -> None:
    for path in (root, root / "bin", root / "bin" / "start-shell"):
        path.chmod(0o555)
    removal.remove(keep=None)
    assert not root.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_somebody_else_s_is_refused(removal: Removal, root: Path) -> None:
    root.parent.chmod(0o555)
    try:
        with pytest.raises(InstallError, match=r"you may not write to .*, which belongs to"):
            removal.check()
    finally:
        root.parent.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_another_user_is_found_first(removal: Removal, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(root)
    (root / "bin").chmod(0o555)
    monkeypatch.setattr("sifmod.installed.removal.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InstallError, match=r"/bin', which belongs to .* --group-writable-installdir .*Nothing was"):
        removal.remove(keep=None)
    (root / "bin").chmod(0o755)
    assert snapshot(root) == before
    assert removal.installation.module_files


def test_a_module_file_of_another_stays(space: SoftwareSpace, removal: Removal, root: Path, said: list[str]) -> None:
    file = write_file(space.modules / "all" / f"{MODULE}.lua", 'local root = "/elsewhere"\n')
    removal.remove(keep=None)
    assert file.exists()
    assert any("another installation" in line for line in said)
    assert not root.exists()


@pytest.mark.parametrize("points", ["drawn", pytest.param("every", marks=pytest.mark.slow)])
def test_killed_at_any_change_it_is_finished_by_the_same_command(
    space: SoftwareSpace, need: Need, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, points: str
) -> None:
    """kill -9 at the system calls that change the file system."""
    monkeypatch.setenv("EASYBUILD_PREFIX", str(space.software.parent))
    remove = [sys.executable, "-B", "-c", "from sifmod.cli import main; main()", "remove", MODULE, "--yes"]
    killing = Killing(need("strace"), remove)
    make_installation(space, MODULE)
    changes = killing.points(tmp_path / "log", ("unlink", "unlinkat", "rename", "rmdir"))
    assert len(changes) > 5
    for point in changes if points == "every" else drawn("removal", changes, 3):
        make_installation(space, MODULE)
        assert killing.at(point)
        last = not list(space.software.glob("[!.]*/*")) and not list(space.software.glob(".[!l]*"))
        again = subprocess.run(remove, capture_output=True, text=True, check=False)
        # killed before it removes an empty folder of modules, which nobody looks for afterwards
        left = [path for path in space.modules.rglob("*/*") if point[0] != "rmdir" or not path.is_dir()]
        if last:  # nothing is left to do; a lock stays, which the next takes over
            assert (again.returncode, left) == (InstallError.exit_code, []), point
        else:
            assert (again.returncode, again.stderr, left, software(space)) == (0, "", [], []), point


HIDDEN = "Demo/.1"


@pytest.fixture
def hidden(space: SoftwareSpace) -> Path:
    """An installation of `Demo/1` in a hierarchy, with --hidden and --disable-fixed-installdir-naming-scheme."""
    return make_installation(space, HIDDEN, **named(space, HIDDEN, subdir="Core/Demo/1"))


def remove(space: SoftwareSpace, wanted: str) -> list[str]:
    said: list[str] = []
    Removal(find_installation(space, wanted), say=said.append).remove(keep=None)
    return said


def test_the_recorded_module_files_go_whatever_names_they_have(space: SoftwareSpace, hidden: Path) -> None:
    remove(space, "Demo/1")
    assert not hidden.exists()
    assert [path for path in space.modules.rglob("*") if not path.is_dir()] == []


def test_where_no_module_file_is_found_nothing_is_removed(space: SoftwareSpace, root: Path, hidden: Path) -> None:
    for path in space.modules.rglob("*.lua"):
        path.unlink()
    for wanted, place in ((HIDDEN, rf"'{space.modules}/all/Core/Demo/\.1\.lua'"), (MODULE, "it is not in '")):
        with pytest.raises(InstallError, match=rf"no module file of .*{place}.*eb --module-only --rebuild"):
            remove(space, wanted)
    assert root.exists()
    assert hidden.exists()


def test_a_module_file_in_another_tree_would_stay(space: SoftwareSpace, tmp_path: Path) -> None:
    names_of = named(space, "Demo/1")
    other = tmp_path / "other" / "all" / "Demo" / "1.lua"
    names_of["module_files"][str(other)] = "0" * 64
    root = make_installation(space, "Demo/1", **names_of)
    other.unlink()
    other.write_text(module_text(root))
    with pytest.raises(InstallError, match=rf"'{other}' would stay.*EASYBUILD_INSTALLPATH_MODULES"):
        remove(space, "Demo/1")
    other.unlink()
    remove(space, "Demo/1")
    assert not root.exists()


def test_module_files_go_only_if_they_load_this_installation(space: SoftwareSpace, tmp_path: Path) -> None:
    victim = make_installation(space, "Victim/1")
    theirs = [space.modules / tree / "Victim" / "1.lua" for tree in ("all", "lang")]
    outside = write_file(tmp_path / "precious", "precious")
    names_of = named(space, "Demo/1")
    make_installation(space, "Demo/1", **names_of)
    manifest = read_manifest(space.software / "Demo" / "1")
    assert manifest
    files = {**names_of["module_files"], **dict.fromkeys(map(str, (*theirs, outside)), "")}
    (space.software / "Demo" / "1" / names.MANIFEST).write_text(replace(manifest, module_files=files).text)
    said = remove(space, "Demo/1")
    assert [line.partition(":")[0] for line in said if "leaving" in line] == [
        f"leaving {path}" for path in (*sorted([theirs[0], outside]), theirs[1])
    ]
    assert outside.read_text() == "precious"
    assert find_installation(space, "Victim/1").root == victim
    assert all(path.exists() for path in theirs)


def test_a_killed_removal_can_be_finished(space: SoftwareSpace, hidden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(hidden), "rename", die)
    with pytest.raises(KeyboardInterrupt):
        remove(space, HIDDEN)
    monkeypatch.undo()
    assert find_installation(space, HIDDEN).module_files == ()
    settled = shutil.copytree(hidden, hidden.with_name("settled"))
    settle(settled)
    assert not list(settled.glob(".sifmod-*"))
    shutil.rmtree(settled)
    remove(space, HIDDEN)
    assert software(space) == ["Core"]


def test_the_mark_of_a_removal_is_not_made_through_a_link(space: SoftwareSpace, hidden: Path, tmp_path: Path) -> None:
    (hidden / names.REMOVING).symlink_to(tmp_path / "made")
    remove(space, HIDDEN)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("wanted", [HIDDEN, "Core/Demo/.1", "Demo/1"])
def test_leftovers_are_found(space: SoftwareSpace, hidden: Path, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setattr("sifmod.installed.removal._remove_tree", lambda _top: None)
    remove(space, HIDDEN)
    monkeypatch.undo()
    assert not hidden.exists()
    assert len(remove_leftovers(space, wanted)) == 1
    assert software(space) == ["Core"]
    assert not list((space.software / "Core").iterdir())


def test_leftovers_are_those_of_this_version_only(space: SoftwareSpace) -> None:
    make_installation(space, "Demo/1")
    for name in (".removing-1.0-x.abcdef01", ".removing-1.0-xy.abcdef01"):
        (space.software / "Demo" / name).mkdir()
    assert [path.name for path in remove_leftovers(space, MODULE)] == [".removing-1.0-x.abcdef01"]
    assert remove_leftovers(space, "Demo") == ()
    assert remove_leftovers(space, "../..") == ()


def test_an_untouched_environment_is_not_user_software(removal: Removal, root: Path) -> None:
    assert removal.users_own == ()
    (root / names.USER_SOFTWARE_UNPACKED).touch()
    assert removal.users_own == ()


@pytest.mark.parametrize(
    "path",
    [
        "user-software/data.txt",
        "user-software/venv/second/pyvenv.cfg",
        "user-software/venv/demo/bin/tool",
        "user-software/venv/demo/share/x",
        "user-software/venv/demo/lib/libmine.so",
        "user-software/venv/demo/lib/python3.11/mine.txt",
        "user-software/venv/demo/lib/python3.11/site-packages/mine.py",
        "user-software.squashfs",
        "user-software.squashfs.previous",
        "user-software-python3.10/venv/x",
        "user-software-undone1.squashfs",
    ],
)
def test_what_users_made_is_user_software(removal: Removal, root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).touch()
    assert [item.name for item in removal.users_own] == [path.split("/")[0]]


def test_packed_user_software_is_kept_with_all_that_was_set_aside(removal: Removal, root: Path, tmp_path: Path) -> None:
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_LIST).write_text("greeting==1.0\n")
    aside = root / "user-software-python3.10" / "venv" / "old"
    aside.mkdir(parents=True)
    (aside / "link").symlink_to("../nowhere")
    (root / "user-software-python3.10.txt").write_text("old==1\n")
    removal.remove(keep=tmp_path / "kept")
    kept = tmp_path / "kept" / "Demo-1.0-x"
    assert (kept / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS
    assert (kept / names.USER_SOFTWARE_LIST).read_text() == "greeting==1.0\n"
    assert (kept / "user-software-python3.10.txt").read_text() == "old==1\n"
    assert os.readlink(kept / "user-software-python3.10" / "venv" / "old" / "link") == "../nowhere"  # noqa: PTH115
    assert not root.exists()


def test_a_removal_that_can_t_keep_user_software_removes_nothing(removal: Removal, root: Path, tmp_path: Path) -> None:
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (tmp_path / "file").touch()
    with pytest.raises(InstallError, match="nothing was removed"):
        removal.remove(keep=tmp_path / "file")
    assert root.exists()
    kept = tmp_path / "kept" / "Demo-1.0-x"
    kept.mkdir(parents=True)
    (kept / names.USER_SOFTWARE_PACKED).write_bytes(b"another")
    with pytest.raises(InstallError, match="already exists with other content"):
        removal.remove(keep=tmp_path / "kept")
    assert (kept / names.USER_SOFTWARE_PACKED).read_bytes() == b"another"
    assert removal.installation.module_files
    (kept / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    removal.remove(keep=tmp_path / "kept")


def test_packing_that_fails_stops_the_removal(space: SoftwareSpace, root: Path, tmp_path: Path) -> None:
    (root / "user-software" / "mine").touch()
    packer = root / "bin" / "make-squashfs"
    list_file(root, "bin/make-squashfs")
    write_program(packer, "#!/bin/sh\necho no space left >&2\nexit 8\n")
    removal = Removal(find_installation(space, MODULE), say=print)
    with pytest.raises(InstallError, match="nothing was removed: no space left"):
        removal.remove(keep=tmp_path / "kept")
    assert removal.installation.module_files


# What the manifest does not list


def test_files_of_others_are_refused_and_named(removal: Removal, root: Path) -> None:
    write_file(root / "mydata" / "a")
    write_file(root / "share" / "mine" / "z")
    (root / "bin" / "tool").touch()
    write_file(root / "easybuild" / "log")
    (root / ".sifmod-stage").mkdir()
    assert [str(path.relative_to(root)) for path in removal.others] == ["bin/tool", "mydata", "share/mine"]
    before = snapshot(root)
    with pytest.raises(InstallError, match=r"not install \(bin/tool, mydata, share/mine\): .* --delete-other-files"):
        removal.remove(keep=None)
    assert snapshot(root) == before
    assert removal.installation.module_files
    removal.remove(keep=None, delete_others=True)
    assert not root.exists()


# EasyBuild's lock


def test_a_lock_is_held(space: SoftwareSpace, removal: Removal, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = space.lock(root)
    seen = []
    monkeypatch.setattr(Removal, "_remove_module_files", lambda _self: seen.append(lock.is_dir()))
    removal.remove(keep=None)
    assert seen == [True]
    assert not lock.exists()


def test_a_failure_unlocks(space: SoftwareSpace, removal: Removal, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang_up(_self: Removal) -> None:
        signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr(Removal, "_remove_module_files", hang_up)
    with pytest.raises(SystemExit):
        removal.remove(keep=None)
    assert root.exists()
    assert list((space.software / ".locks").iterdir()) == []


def test_eb_s_lock_is_not_taken_and_removals_wait(space: SoftwareSpace, removal: Removal, root: Path) -> None:
    with hold_lock(space.lock(root)):
        removal.check()
        with pytest.raises(InstallError, match="is working on this module"):
            removal.remove(keep=None)
    removal.remove(keep=None)
    lock = space.lock(root)
    lock.mkdir(parents=True)
    with pytest.raises(InstallError, match="is working on this module"), hold_lock(lock):
        pass
    assert list(lock.iterdir()) == []


@pytest.mark.parametrize("when", ["open", "symlink", "flock"])
def test_a_half_made_lock_is_ours(space: SoftwareSpace, root: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    lock = space.lock(root)
    lock.parent.mkdir(exist_ok=True)
    child = os.fork()
    if not child:
        for module, name in ((os, "open"), (os, "symlink"), (fcntl, "flock")):
            if name == when:
                monkeypatch.setattr(module, name, lambda *_words, **_more: os.kill(os.getpid(), signal.SIGKILL))
        with hold_lock(lock):
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with hold_lock(lock):
        assert lock.is_dir()
    assert not lock.exists()


# User software behind a link


def test_links_are_named(space: SoftwareSpace, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "user-software").rename(tmp_path / "scratch")
    (root / "user-software").symlink_to(tmp_path / "scratch")
    Removal(find_installation(space, MODULE), say=print).remove(keep=None)
    assert not root.exists()
    assert (tmp_path / "scratch").is_dir()
    assert f"leaving {tmp_path}/scratch: 'user-software' was a link to it" in capsys.readouterr().out


def test_software_behind_a_lost_link_can_not_be_kept(space: SoftwareSpace, root: Path, tmp_path: Path) -> None:
    (root / "user-software").rename(tmp_path / "scratch")
    (root / "user-software").symlink_to(tmp_path / "gone")
    with pytest.raises(InstallError, match="gone', which does not exist: is its file system mounted here"):
        Removal(find_installation(space, MODULE), say=print).remove(keep=tmp_path / "kept")
    assert root.exists()


# A disk that is full while user software is kept


@pytest.mark.parametrize("packed_before", [False, True])
def test_a_full_disk_leaves_it_unpacked(
    space: SoftwareSpace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed_before: bool
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    (root / "user-software" / "mine").touch()
    if packed_before:
        (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS + b"older")
        (root / names.USER_SOFTWARE_UNPACKED).touch()
        (root / names.USER_SOFTWARE_LIST).write_text("older==1\n")
    packer = root / "bin" / "make-squashfs"
    list_file(root, "bin/make-squashfs")
    write_program(packer, PACKER.replace("SQUASHFS", shlex.quote(str(tmp_path / "squashfs"))))
    (tmp_path / "squashfs").write_bytes(SQUASHFS)

    def state() -> object:
        return snapshot(root, {"user-software"}), user_modes(root)

    before = state()
    monkeypatch.setattr("sifmod.installed.removal.difference_from_packed", lambda _installation: "")
    monkeypatch.setattr("sifmod.host.files.shutil.copyfileobj", full)
    removal = Removal(find_installation(space, MODULE), say=print)
    with pytest.raises(InstallError, match="No space left on device; nothing was removed"):
        removal.remove(keep=tmp_path / "kept")
    (root / names.USER_SOFTWARE_LOCK).unlink()
    assert state() == before
    assert not (tmp_path / "kept" / "Demo-1.0-x").exists()
    monkeypatch.undo()
    monkeypatch.setattr("sifmod.installed.removal.difference_from_packed", lambda _installation: "")
    removal.remove(keep=tmp_path / "kept")
    assert (tmp_path / "kept" / "Demo-1.0-x" / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS
    assert not root.exists()


def test_the_image_for_enroot_goes_with_the_installation(space: SoftwareSpace) -> None:
    files = ("bin/start-shell", "demo.sif", "demo.sqsh", "share/container.sh", names.MANIFEST)
    more = {"squashfs": "demo.sqsh", "squashfs_sha256": "1" * 64, "squashfs_size": 1}
    root = make_installation(space, "Other/1", files=files, **more)
    (root / "demo.sqsh").touch()
    removal = Removal(find_installation(space, "Other/1"), say=print)
    assert (removal.others, removal.users_own) == ((), ())
    removal.remove(keep=None)
    assert not root.exists()


# What make-squashfs does in the end, with --replace or without.
PACKER = """#!/bin/bash
set -e
cd "${0%/*}/.."
if [[ -e user-software.squashfs ]]; then mv -T user-software.squashfs user-software.squashfs.previous; fi
echo mine==1 >user-software.txt.new
mv user-software.txt.new user-software.txt
cp SQUASHFS user-software.squashfs
rm -f user-software.unpacked
printf '755 ./\\0' >user-software/.sifmod-folder-modes
find user-software -type d -exec chmod a-w {} +
"""


# Old images


def test_old_images_go_alone(space: SoftwareSpace, root: Path) -> None:
    manifest = read_manifest(root)
    assert manifest
    (root / "old.sif").write_bytes(b"old")
    (root / names.MANIFEST).write_text(
        replace(manifest, files=(*manifest.files, "old.sif"), old_images=("old.sif",)).text
    )
    removal = Removal(find_installation(space, MODULE), say=print)
    assert removal.installation.old_images == (root / "old.sif",)
    assert removal.others == ()
    before = snapshot(root)
    assert removal.remove_old_images() == (root / "old.sif",)
    assert read_manifest(root) == manifest
    changed = {name for name, facts in snapshot(root).items() if before[name] != facts}
    assert changed <= {names.MANIFEST, "share", "."}
    assert not (root / "old.sif").exists()
    assert not list((space.software / ".locks").iterdir())
