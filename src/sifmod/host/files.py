"""Files of this host: their digests, files that are written whole or not at all, and paths that stay inside."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Callable, Optional

from sifmod.artefact import path_problem
from sifmod.errors import InstallError, SifmodError

# What link(2) says on a file system without hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def sha256_of(path: Path, *, progress: Callable[[int], object] = lambda _size: None) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Args:
        path: the file.
        progress: called with the number of bytes after each piece that was read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(4 * 1024 * 1024):
            digest.update(chunk)
            progress(len(chunk))
    return digest.hexdigest()


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text file that a user asked for, whole or not at all.

    Args:
        path: the file.
        text: its content.
        force: whether a file that exists is replaced.

    Raises:
        SifmodError: it exists, or can't be written.
    """
    try:
        write_whole(path, text, replace=force)
    except FileExistsError as error:
        raise SifmodError(f"'{path}' exists: choose another name, or write over it with --force") from error
    except OSError as error:
        raise SifmodError(f"'{path}' can't be written: {error.strerror}") from error


def write_whole(path: Path, text: str, *, replace: bool = True, mode: Optional[int] = None) -> None:
    """Write a text file in UTF-8; see `whole_file`.

    Raises:
        OSError: it can't be written; an earlier file is as it was.
    """
    with whole_file(path, replace=replace, mode=mode) as stream:
        stream.write(text.encode())


@contextlib.contextmanager
def whole_file(path: Path, *, replace: bool = True, mode: Optional[int] = None) -> Iterator[BinaryIO]:
    """Yield a stream that becomes a file at the end of the block: on disk, and whole, or not at all.

    The content is written under another name in the same folder. A symbolic link in the place of the file is replaced,
    or stands in the way; it is not followed.

    Args:
        path: the file.
        replace: whether a file that exists is replaced.
        mode: permission bits of the file; by default the umask decides.

    Raises:
        FileExistsError: there is something with this name, and it is not to be replaced.
        OSError: the file can't be written; an earlier one is as it was.
    """
    draft = path.with_name(f".sifmod-{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # full network file systems and exceeded quotas say so only now
        if replace:
            draft.replace(path)
        else:
            _rename_new(draft, path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a file that another program has written, once it is on disk; what has the name is replaced.

    Raises:
        OSError: it can't be synced or renamed.
    """
    descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    _sync_folder(path.parent)


def inside(top: Path, name: str) -> Path:
    """Return the path of a file of an installation, from the name that a record of it has.

    Args:
        top: the installation, or another folder with the same files.
        name: path relative to it.

    Raises:
        InstallError: the name leads out of the folder, by itself or through a symbolic link on the way, or it is one
            that sifmod writes no file under. The last part may be a link: it is for the caller not to follow it.
    """
    problem = path_problem(name)
    if not problem:
        links = [folder for folder in list(Path(name).parents)[:-1] if (top / folder).is_symlink()]
        problem = f"'{links[-1]}' is a symbolic link" if links else ""
    if problem:
        raise InstallError(f"{name!r} is refused as a file of '{top}': {problem}")
    return top / name


def _rename_new(draft: Path, path: Path) -> None:
    """Give a draft its name unless something has it."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        draft.rename(path)


def _sync_folder(folder: Path) -> None:
    """Have the new name on disk too; the file is in place already, so a file system that can't is no failure."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
