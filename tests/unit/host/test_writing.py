"""Files and folders are written whole or not at all, also when something fails halfway."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.support import exchanging, mode_of

from sifmod.errors import InstallError, SifmodError
from sifmod.host import writing
from sifmod.host.files import held_folder
from sifmod.host.writing import (
    put_in_place,
    scratch_folder,
    whole_file,
    write_folder,
    write_new,
    write_together,
    write_whole,
)


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file that exists."""
    path = tmp_path / "file"
    path.write_text("old")
    return path


def is_as_it_was(path: Path) -> bool:
    """Return whether an old file has its old content, and nothing lies beside it."""
    return path.read_text() == "old" and list(path.parent.iterdir()) == [path]


def test_a_file_is_written_and_replaced_unless_it_must_not_exist(path: Path) -> None:
    with pytest.raises(FileExistsError):
        write_whole(path, "new", replace=False)
    assert is_as_it_was(path)
    with pytest.raises(SifmodError, match="exists: choose another name, or overwrite it with --force"):
        write_new(path, "new")
    assert is_as_it_was(path)
    write_whole(path, "né\n")
    assert path.read_bytes() == "né\n".encode()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_the_umask_decides_about_the_mode_unless_it_is_given(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "plain", "")
        write_whole(tmp_path / "given", "", mode=0o640)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "given").stat().st_mode) == 0o640


@pytest.mark.parametrize("target", ["file", "gone"])
def test_a_link_in_the_place_of_the_file_is_not_followed(path: Path, target: str) -> None:
    link = path.with_name("link")
    link.symlink_to(path.with_name(target))
    with pytest.raises(FileExistsError):
        write_whole(link, "new", replace=False)
    assert link.is_symlink()
    write_whole(link, "new")
    assert (link.is_symlink(), link.read_text(), path.read_text()) == (False, "new", "old")
    assert not path.with_name("gone").exists()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_without_space_the_old_file_stays_and_no_draft(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    if call == "fsync":
        monkeypatch.setattr(os, "fsync", lambda _descriptor: fail(errno.ENOSPC))
    else:
        monkeypatch.setattr(Path, "replace", lambda _self, _target: fail(errno.EDQUOT))
    with pytest.raises(OSError, match=r"No space left|Disk quota"):
        write_whole(path, "new")
    assert is_as_it_was(path)


def test_a_write_that_fails_halfway_leaves_the_old_file(path: Path) -> None:
    """The kernel itself refuses to go on: the process may write no file larger than 4,096 bytes."""
    code = (
        "import resource, sys; from pathlib import Path; from sifmod.host.writing import write_new\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "write_new(Path(sys.argv[1]), 'x' * 100_000, force=True)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert "can't be written: File too large" in done.stderr
    assert is_as_it_was(path)


def test_an_exception_in_the_block_leaves_the_old_file(path: Path) -> None:
    def interrupted() -> None:
        with whole_file(path) as stream:
            stream.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert is_as_it_was(path)


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_kill_in_between_leaves_the_old_file(path: Path, call: str) -> None:
    code = (
        "import os, pathlib, signal, sys; from sifmod.host.writing import write_whole\n"
        f"{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_whole(pathlib.Path(sys.argv[1]), 'new')"
    )
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == -9
    assert path.read_text() == "old"


def test_file_and_folder_are_synced_before_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, str]] = []

    def fsync(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.read_text()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, "new")
    assert synced == [(False, "old"), (True, "new")]
    draft = path.with_name("draft")
    draft.write_text("newer")
    put_in_place(draft, path)
    assert synced[2:] == [(False, "new"), (True, "newer")]


def test_a_folder_without_sync_or_hard_links_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lambda *_: fail(errno.EPERM))
    write_whole(path.with_name("new"), "new", replace=False)
    assert path.with_name("new").read_text() == "new"
    with pytest.raises(FileExistsError):
        write_whole(path, "new", replace=False)
    assert path.read_text() == "old"

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            fail(errno.EINVAL)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_files_that_belong_together_are_written_together(tmp_path: Path) -> None:
    write_together(tmp_path, {"a": "1", "b": "2"})
    assert [(tmp_path / name).read_text() for name in "ab"] == ["1", "2"]
    with pytest.raises(SifmodError, match="exists: choose another name"):
        write_together(tmp_path, {"c": "3", "b": "3"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    write_together(tmp_path, {"a": "3", "b": "4"}, force=True)
    assert [(tmp_path / name).read_text() for name in "ab"] == ["3", "4"]


@pytest.mark.parametrize("force", [False, True])
def test_a_full_disk_for_one_file_writes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool) -> None:
    (tmp_path / "old").mkdir()
    names = ("a", "b")
    if force:
        write_together(tmp_path, dict.fromkeys(names, "old"))
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            fail(errno.ENOSPC)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SifmodError, match="can't be written to: No space left"):
        write_together(tmp_path, dict.fromkeys(names, "new"), force=force)
    texts = [path.read_text() for path in tmp_path.iterdir() if path.is_file()]
    assert texts == (["old", "old"] if force else [])


def test_a_folder_is_written_whole_in_place_of_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pages"
    write_folder(folder, {"a": "1", "sub/b": "2"}, replaceable=lambda _folder: False)
    write_folder(folder, {"a": "3"}, replaceable=lambda found: (found / "sub").is_dir())
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("a", "3")]
    assert [path.name for path in folder.parent.iterdir()] == ["pages"]
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_folder(tmp_path / "link", {"a": "1"}, replaceable=lambda _folder: False)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/a").read_text() == "1"


def test_what_a_killed_run_has_left_is_removed_a_day_later(tmp_path: Path) -> None:
    for name, day in ((".pages.sifmod-1", 0), (".pages.sifmod-2", 1_700_000_000), (".other.sifmod-3", 1)):
        (tmp_path / name).mkdir()
        if day:
            os.utime(tmp_path / name, (day, day))
    write_folder(tmp_path / "pages", {"a": "1"}, replaceable=lambda _folder: False)
    assert {path.name for path in tmp_path.iterdir()} == {"pages", ".pages.sifmod-1", ".other.sifmod-3"}


def test_a_folder_that_can_t_be_exchanged_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pages"
    write_folder(folder, {"a": "old"}, replaceable=lambda _folder: True)
    rename = Path.rename

    def no_space(self: Path, target: Path) -> Path:
        if target == folder and not self.name.endswith("-old"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", no_space)
    with pytest.raises(SifmodError, match="can't be written: No space left on device"):
        write_folder(folder, {"a": "new"}, replaceable=lambda _folder: True)
    assert (folder / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]


def test_a_folder_keeps_its_group_and_mode_for_all_that_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    group = next((group for group in os.getgroups() if group != os.getgid()), 4242 if os.getuid() == 0 else os.getgid())
    os.chown(folder, -1, group)
    folder.chmod(0o2750)
    umask = os.umask(0o077)
    try:
        write_folder(folder, {"a": "1", "sub/b": "2"}, replaceable=lambda _folder: True)
    finally:
        os.umask(umask)
    facts = {path.name: (path.stat().st_gid, path.stat().st_mode & 0o7777) for path in (folder, *folder.rglob("*"))}
    assert facts == {
        "pages": (group, 0o2750),
        "a": (group, 0o640),
        "sub": (group, 0o2750),
        "b": (group, 0o640),
    }


@pytest.mark.parametrize("quicker", ["took it away", "put it back", "is the first"])
def test_a_quicker_run_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quicker: str) -> None:
    folder = tmp_path / "pages"
    if quicker != "is the first":
        write_folder(folder, {"a": "old"}, replaceable=lambda _folder: True)
    rename = Path.rename
    done: list[str] = []

    def meanwhile(self: Path, target: Path) -> Path:
        if not done and folder == (self if quicker == "took it away" else target):
            done.append(quicker)
            if quicker == "took it away":
                rename(folder, tmp_path / "aside")
            else:
                write_folder(folder, {"a": "other", "b": "other"}, replaceable=lambda _folder: True)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", meanwhile)
    write_folder(folder, {"a": "new"}, replaceable=lambda _folder: True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "new"}
    assert {path.name for path in tmp_path.iterdir()} <= {"pages", "aside"}


def test_a_link_to_itself_is_no_folder_nor_is_a_place_outside(tmp_path: Path) -> None:
    with pytest.raises(InstallError):
        write_folder(tmp_path / "pages", {"a": "1", "../b": "2"}, replaceable=lambda _folder: True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "pages").symlink_to("pages")
    with pytest.raises(SifmodError, match="is not a directory"):
        write_folder(tmp_path / "pages", {"a": "1"}, replaceable=lambda _folder: True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("mine")
    with pytest.raises(SifmodError, match="is not a directory"):
        write_folder(tmp_path / "pages", {"a": "1"}, replaceable=lambda _folder: True)
    assert (tmp_path / "pages").read_text() == "mine"


def test_what_a_program_has_made_of_a_scratch_folder_changes_nothing_elsewhere(path: Path) -> None:
    path.chmod(0o644)
    with scratch_folder("test") as scratch:
        closed = scratch / "closed"
        closed.mkdir()
        (closed / "link").symlink_to(path)
        closed.chmod(0o500)
    assert not scratch.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert is_as_it_was(path)


def test_a_removal_gives_no_rights_to_what_is_exchanged_meanwhile(tmp_path: Path) -> None:
    private, theirs, link = (tmp_path / name for name in ("private", "theirs", "link"))
    private.mkdir()
    theirs.mkdir()
    link.symlink_to(private)
    modes = set()
    with held_folder(theirs) as (place, _mode), exchanging(theirs, link):
        for _turn in range(2000):
            private.chmod(0o500)
            place.chmod(0o077)
            writing._open_folder(theirs)
            modes.add(mode_of(private))
    assert modes <= {0o500, 0o700}
