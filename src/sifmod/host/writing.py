"""Files and folders written whole or not at all, and removed."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Callable, Optional

from sifmod.errors import SifmodError, os_errors
from sifmod.host.files import each_level_a_call, folders_below, held_folder, inside

_ABANDONED = 86400  # seconds after which nobody writes to a draft any more
_ATTEMPTS = 10  # to rename a folder that other runs rename at the same time
# Errors of link(2) on a file system without hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text file that a user asked for, atomically; SifmodError if that fails, or without `force` one exists."""
    try:
        write_whole(path, text, replace=force)
    except FileExistsError as error:
        raise SifmodError(f"'{path}' exists: choose another name, or overwrite it with --force") from error
    except OSError as error:
        raise SifmodError(f"'{path}' can't be written: {error.strerror}") from error


def write_together(folder: Path, files: Mapping[str, str], *, force: bool = False) -> None:
    """Write several such files: all or none, which is a SifmodError."""
    refuse_existing([] if force else [folder / name for name in files])
    with os_errors(SifmodError, f"'{folder}' can't be written to"), contextlib.ExitStack() as stack:
        # each draft is on disk before the first one gets its name
        for name, text in files.items():
            stream = stack.enter_context(whole_file(folder / name, replace=force))
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())


def write_folder(folder: Path, files: Mapping[str, str], *, replaceable: Callable[[Path], bool]) -> None:
    """Write a folder of text files that a user asked for: all of them, in place of an earlier one, or nothing.

    The folder is written under another name beside it and renamed: readers never see a mixture of two. It has the group
    and the permissions of the earlier one, and so has what is in it: a web server can read what it could read before.
    A link to a folder stays a link. `replaceable` says whether an existing folder that is not empty is an earlier one.

    Raises:
        SifmodError: the folder is something else, or can't be written; an earlier one is unchanged.
    """
    folder = Path(os.path.realpath(folder))  # Path.resolve has a RuntimeError for a link to itself
    drafts = f".{folder.name}.sifmod-"
    if os.path.lexists(folder) and not folder.is_dir():
        raise SifmodError(f"'{folder}' exists and is not a directory: choose another name")
    with os_errors(SifmodError, f"'{folder}' can't be read"):
        if folder.exists() and any(folder.iterdir()) and not replaceable(folder):
            raise SifmodError(
                f"'{folder}' has files that are not of an earlier one: choose a new or an empty directory"
            )
    try:
        earlier = folder.stat() if folder.exists() else None
        draft = folder.with_name(f"{drafts}{uuid.uuid4().hex}")
        draft.mkdir(parents=True)
        try:
            if earlier:
                with contextlib.suppress(PermissionError):  # of a group that this user has left
                    os.chown(draft, -1, earlier.st_gid)
            for name, text in files.items():
                path = inside(draft, name)
                path.parent.mkdir(exist_ok=True, parents=True)
                with path.open("xb") as stream:
                    stream.write(text.encode())
                    stream.flush()
                    os.fsync(stream.fileno())
            if earlier:
                _share_as(draft, draft.stat().st_gid, stat.S_IMODE(earlier.st_mode))
            _exchange(draft, folder)
            for path in folder.parent.glob(f"{glob.escape(drafts)}*"):
                # of a run that was killed: no run takes so long
                if path != draft and time.time() - path.stat().st_mtime > _ABANDONED:
                    remove_tree(path)
        finally:
            remove_tree(draft)
    except OSError as error:
        raise SifmodError(
            f"'{folder}' can't be written: {error.strerror}. sifmod writes a new folder beside it and renames that, so "
            f"'{folder.parent}' must be writable"
        ) from error


def _share_as(folder: Path, group: int, mode: int) -> None:
    """Set the group and permissions of a folder and of all that is in it."""
    for path in (*folder.rglob("*"), folder):
        if path.stat().st_gid != group:
            os.chown(path, -1, group)
        path.chmod(mode if path.is_dir() else mode & 0o666)


def _exchange(draft: Path, folder: Path) -> None:
    """Rename a folder to a name that may be taken; what had it is deleted. Of several runs the last one wins."""
    aside = draft.with_name(f"{draft.name}-old")
    for attempt in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            folder.rename(aside)
        try:
            draft.rename(folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and attempt + 1 < _ATTEMPTS:
                remove_tree(aside)  # another run was quicker: its folder is the earlier one now
                continue
            with contextlib.suppress(FileNotFoundError):
                aside.rename(folder)
            raise
        _sync_folder(folder.parent)
        remove_tree(aside)
        return


def refuse_existing(paths: Iterable[Path]) -> None:
    """Refuse to write over files."""
    for path in paths:
        if os.path.lexists(path):
            raise SifmodError(f"'{path}' exists: choose another name, or overwrite it with --force")


def write_whole(path: Path, text: str, *, replace: bool = True, mode: Optional[int] = None) -> None:
    """Write a text file in UTF-8; see `whole_file`."""
    with whole_file(path, replace=replace, mode=mode) as stream:
        stream.write(text.encode())


@contextlib.contextmanager
def whole_file(path: Path, *, replace: bool = True, mode: Optional[int] = None) -> Iterator[BinaryIO]:
    """Yield a stream that becomes a file, complete and on disk, at the end of the block.

    The content is written under another name in the same folder, and renamed at the end. A symbolic link counts as an
    existing file and is not followed. The permission bits are by default those of the umask.

    Raises:
        FileExistsError: the file exists, and `replace` is false.
        OSError: the file can't be written; an earlier file is unchanged.
    """
    draft = path.with_name(f".sifmod-{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # network file systems report a full disk or an exceeded quota only now
        if replace:
            draft.replace(path)
        else:
            _rename_new(draft, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def put_in_place(draft: Path, path: Path) -> None:
    """Sync a file that another program has written, and rename it; an existing file is replaced."""
    descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    _sync_folder(path.parent)


def keep_as(path: Path, target: Path) -> None:
    """Keep a file's content under a second name, by a hard link, else a copy; OSError if there is such a name."""
    with contextlib.suppress(OSError):
        os.link(path, target, follow_symlinks=False)
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    shutil.copy2(path, target, follow_symlinks=False)


def remove_tree(top: Path) -> None:
    """Delete a file or a directory, including folders without write permission; links are never followed."""
    if not os.path.lexists(top):
        return
    if top.is_symlink() or not top.is_dir():
        top.unlink()
        return
    for folder in folders_below(top):
        _open_folder(folder)
    with each_level_a_call(top):
        shutil.rmtree(top)


@contextlib.contextmanager
def private_folder(path: Path) -> Iterator[Path]:
    """Make a folder for a program to write into, and yield a path by which only that folder is found.

    Others who may rename in the folder above could lead the program elsewhere: its file is not in this folder then.

    Raises:
        OSError: it can't be made, or another one has its name already.
    """
    path.mkdir(mode=0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_mode & 0o077) != (os.geteuid(), 0) or os.listdir(descriptor):  # noqa: PTH208 - of a descriptor
            raise FileExistsError(errno.EEXIST, "another user has replaced it", str(path))
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Yield a private temporary folder, which is removed at the end, whatever a program in a container has made of it.

    To remove what can't be written to, `tempfile.TemporaryDirectory` of older Pythons changes the modes of files that
    links lead to (CVE-2023-6597).
    """
    folder = Path(tempfile.mkdtemp(prefix=f"sifmod-{kind}-")).resolve()
    try:
        yield folder
    finally:
        remove_tree(folder)


def _open_folder(path: Path) -> None:
    """Let the owner of a folder delete what is in it."""
    with contextlib.suppress(OSError), held_folder(path) as (folder, mode):
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            folder.chmod(mode | stat.S_IRWXU)


def _rename_new(draft: Path, path: Path) -> None:
    """Rename a draft unless the new name exists."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        draft.rename(path)


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name in it is on disk; not all file systems can, so errors are ignored."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
