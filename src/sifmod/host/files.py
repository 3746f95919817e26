"""Files of this host: digests, atomic writes, and paths that stay inside a folder."""

from __future__ import annotations

import contextlib
import errno
import glob
import grp
import hashlib
import os
import pwd
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Callable, Optional, Union

from sifmod.artefact import path_problem
from sifmod.errors import InstallError, SifmodError
from sifmod.text.size import counted, size_text

FEW_INODES = 50_000  # two virtual environments with torch

# Bytes of a file of text: manifests, journals, lists of packages and module files have some kilobytes.
_LARGEST = 64 << 20
_ABANDONED = 86400  # seconds after which nobody writes to a draft any more
_ATTEMPTS = 10  # to rename a folder that other runs rename at the same time
# Errors of link(2) on a file system without hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def sha256_of(path: Path, *, progress: Callable[[int], object] = lambda _size: None) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Args:
        path: the file.
        progress: called with the number of bytes after each piece that was read.

    Raises:
        OSError: it can't be read, or is not a plain file.
    """
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0, opener=_plain) as stream:
        while chunk := stream.read(4 * 1024 * 1024):
            digest.update(chunk)
            progress(len(chunk))
    return digest.hexdigest()


def content_of(path: Path) -> bytes:
    """Return the content of a small file that somebody else may have replaced, by a FIFO or by something endless.

    Raises:
        OSError: it can't be read, is not a plain file, or is too large.
    """
    with open(path, "rb", opener=_plain) as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(errno.EFBIG, f"larger than {_LARGEST} bytes", str(path))
    return content


def size_of(path: Path) -> int:
    """Return the size of a file, for its progress; 0 if it is missing, which whoever reads it reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def is_text(path: Path) -> bool:
    """Return whether a small file is text in UTF-8; False if it can't be read."""
    try:
        content_of(path).decode()
    except (OSError, UnicodeDecodeError):
        return False
    return True


def other_writers(path: Path) -> str:
    """Return who but this user and root may change a file or the names in a folder, as a message says it; else ''.

    Raises:
        OSError: it can't be looked at.
    """
    status = path.stat()
    if status.st_uid not in (os.geteuid(), 0):
        return f"its owner {_name_of(pwd.getpwuid, status.st_uid)}"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""  # others may add names there, and not change these
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"the group {_name_of(grp.getgrgid, status.st_gid)}"
    return ""


def everybody_may_change(path: Path) -> bool:
    """Return whether every user of the machine may change a file, or the names in a folder; False if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_protected = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    return bool(status.st_mode & stat.S_IWOTH) and not is_protected


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text file that a user asked for, atomically.

    Args:
        path: the file.
        text: its content.
        force: whether to replace an existing file.

    Raises:
        SifmodError: the file exists, or can't be written.
    """
    try:
        write_whole(path, text, replace=force)
    except FileExistsError as error:
        raise SifmodError(f"'{path}' exists: choose another name, or overwrite it with --force") from error
    except OSError as error:
        raise SifmodError(f"'{path}' can't be written: {error.strerror}") from error


def write_together(folder: Path, files: Mapping[str, str], *, force: bool = False) -> None:
    """Write several text files that a user asked for: all of them, or none.

    Args:
        folder: where to write them.
        files: texts by file name.
        force: whether to replace existing files.

    Raises:
        SifmodError: a file exists, or can't be written.
    """
    refuse_existing([] if force else [folder / name for name in files])
    try:
        with contextlib.ExitStack() as stack:
            # each draft is on disk before the first one gets its name
            for name, text in files.items():
                stream = stack.enter_context(whole_file(folder / name, replace=force))
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
    except OSError as error:
        raise SifmodError(f"'{folder}' can't be written to: {error.strerror}") from error


def check_folder(folder: Path, *, replaceable: Callable[[Path], bool]) -> None:
    """Refuse a folder that `write_folder` would not replace.

    Raises:
        SifmodError: the folder is something else, has files of others, or can't be read.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise SifmodError(f"'{folder}' exists and is not a directory: choose another name")
    try:
        if folder.exists() and any(folder.iterdir()) and not replaceable(folder):
            raise SifmodError(f"'{folder}' has files that sifmod did not write: choose a new or an empty directory")
    except OSError as error:
        raise SifmodError(f"'{folder}' can't be read: {error.strerror}") from error


def write_folder(
    folder: Path,
    files: Mapping[str, str],
    *,
    replaceable: Callable[[Path], bool],
    executable: Collection[str] = (),
) -> None:
    """Write a folder of text files that a user asked for: all of them, in place of an earlier one, or nothing.

    The folder is written under another name beside it and renamed: readers never see a mixture of two. It has the group
    and the permissions of the earlier one, and so has what is in it: a web server can read what it could read before.

    Args:
        folder: the folder; a link to one stays a link.
        files: texts by relative path.
        replaceable: whether an existing folder that is not empty is an earlier one.
        executable: relative paths of programs.

    Raises:
        SifmodError: the folder is something else, or can't be written; an earlier one is unchanged.
    """
    folder = Path(os.path.realpath(folder))  # Path.resolve has a RuntimeError for a link to itself
    drafts = f".{folder.name}.sifmod-"
    check_folder(folder, replaceable=replaceable)
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
                if name in executable:
                    path.chmod(path.stat().st_mode | _runnable(path.stat().st_mode))
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
    """Set the group and permissions of a folder and of all that is in it; only programs are executable."""
    for path in (*folder.rglob("*"), folder):
        found = path.stat()
        if found.st_gid != group:
            os.chown(path, -1, group)
        plain = mode & 0o666
        path.chmod(mode if path.is_dir() else plain | (_runnable(plain) if found.st_mode & stat.S_IXUSR else 0))


def _runnable(mode: int) -> int:
    """Return the bits with which those who may read a file may run it."""
    return (mode & 0o444) >> 2


def _exchange(draft: Path, folder: Path) -> None:
    """Rename a folder to a name that may be taken; what had it is deleted.

    Another run may do the same at the same time: the last one wins.
    """
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
    """Refuse to write over files.

    Raises:
        SifmodError: one exists.
    """
    for path in paths:
        if os.path.lexists(path):
            raise SifmodError(f"'{path}' exists: choose another name, or overwrite it with --force")


def write_whole(path: Path, text: str, *, replace: bool = True, mode: Optional[int] = None) -> None:
    """Write a text file in UTF-8; see `whole_file`.

    Raises:
        OSError: the file can't be written; an earlier file is unchanged.
    """
    with whole_file(path, replace=replace, mode=mode) as stream:
        stream.write(text.encode())


@contextlib.contextmanager
def whole_file(path: Path, *, replace: bool = True, mode: Optional[int] = None) -> Iterator[BinaryIO]:
    """Yield a stream that becomes a file, complete and on disk, at the end of the block.

    The content is written under another name in the same folder, and renamed at the end. A symbolic link counts as an
    existing file and is not followed.

    Args:
        path: the file.
        replace: whether to replace an existing file.
        mode: permission bits of the file; from the umask by default.

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
    """Sync a file that another program has written, and rename it; an existing file is replaced.

    Raises:
        OSError: the file can't be synced or renamed.
    """
    descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    _sync_folder(path.parent)


def lacking_space(folder: Path, size: int) -> str:
    """Return what a file system or a quota says against another file of some size in a folder; empty if it fits.

    How much a quota allows is known to the file system alone, so the space is reserved, and returned.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            os.posix_fallocate(stream.fileno(), 0, size)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            inodes = free_inodes(folder)
            few = f", {counted(inodes, 'inode')}" if inodes is not None and inodes < FEW_INODES else ""
            return f"{error.strerror} (free: {size_text(shutil.disk_usage(folder).free)}{few})"
    return ""


def free_inodes(folder: Path) -> Optional[int]:
    """Return how many files a file system can still take; None if it makes inodes on demand, and reports no number.

    Raises:
        OSError: the file system can't be queried.
    """
    status = os.statvfs(folder)
    return status.f_favail if status.f_files else None


def owner_of(path: Path) -> str:
    """Return the name of the user that a file belongs to, for a message."""
    try:
        return path.owner()
    except (KeyError, OSError):
        return "another user"


def keep_as(path: Path, target: Path) -> None:
    """Keep the content of a file under a second name, by a hard link if possible, else a copy.

    Raises:
        OSError: the second name exists, or the disk is full.
    """
    with contextlib.suppress(OSError):
        os.link(path, target, follow_symlinks=False)
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    shutil.copy2(path, target, follow_symlinks=False)


def remove_tree(top: Path) -> None:
    """Delete a file or a directory, including folders without write permission; links are never followed.

    Raises:
        OSError: a file can't be deleted.
    """
    if not os.path.lexists(top):
        return
    if top.is_symlink() or not top.is_dir():
        top.unlink()
        return
    _open_folder(top)
    for folder, subfolders, _files in os.walk(top):
        for name in subfolders:
            _open_folder(os.path.join(folder, name))  # noqa: PTH118 - names need not be text
    shutil.rmtree(top)


def inside(top: Path, name: str) -> Path:
    """Return the path of a file of an installation, from a name in a manifest or journal.

    Args:
        top: the installation, or another folder with the same files.
        name: path relative to it.

    Raises:
        InstallError: the name leads out of the folder, by itself or through a symbolic link to a folder, or sifmod must
            not write to it. The file itself may be a symbolic link, which the caller must not follow.
    """
    problem = path_problem(name)
    if not problem:
        links = [folder for folder in list(Path(name).parents)[:-1] if (top / folder).is_symlink()]
        problem = f"'{links[-1]}' is a symbolic link" if links else ""
    if problem:
        raise InstallError(f"{name!r} is refused as a file of '{top}': {problem}")
    return top / name


def _plain(path: str, flags: int) -> int:
    """Open a plain file; opening a FIFO would wait for a writer."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a plain file", path)


def _open_folder(path: Union[str, Path]) -> None:
    """Let the owner of a folder delete what is in it."""
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101 - of a name that need not be text


def _name_of(look_up: Callable[[int], tuple[object, ...]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def _is_own_group(number: int) -> bool:
    """Return whether a group is the one that distributions make for each user: of the same name, with no others."""
    user = _name_of(pwd.getpwuid, os.geteuid())
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user and not set(group.gr_mem) - {user}


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
