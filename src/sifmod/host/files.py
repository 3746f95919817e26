"""Files of this host: digests, contents, paths that stay inside a folder, and space for more."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path, PurePath
from typing import Callable, Optional, Union

from sifmod.artefact import path_problem
from sifmod.errors import InstallError
from sifmod.text.size import counted, size_text

FEW_INODES = 50_000  # two virtual environments with torch

# Bytes of a file of text: manifests, journals, lists of packages and module files have some kilobytes.
_LARGEST = 64 << 20


def sha256_of(path: Path, *, progress: Callable[[int], object] = lambda _size: None) -> str:
    """Return the SHA-256 of a file, in hexadecimal; tell the progress the number of bytes of each piece that was read.

    Raises:
        OSError: it can't be read, or is not a plain file.
    """
    with open_plain(path) as stream:
        return sha256_of_stream(stream, progress=progress)


def sha256_of_stream(stream: RawIOBase, *, progress: Callable[[int], object] = lambda _size: None) -> str:
    """Return the SHA-256 of what is left to read of a file; see `sha256_of`."""
    digest = hashlib.sha256()
    while chunk := stream.read(4 * 1024 * 1024):
        digest.update(chunk)
        progress(len(chunk))
    return digest.hexdigest()


def open_plain(path: Path) -> FileIO:
    """Open a file that another user may replace by a FIFO, which waits, or a device; OSError if it is not plain."""
    return open(path, "rb", buffering=0, opener=_plain)


def content_of(path: Path, *, most: Optional[int] = None) -> bytes:
    """Return the content of a small file that somebody else may have replaced, by a FIFO or by something endless.

    Raises:
        OSError: it can't be read, is not a plain file, or is too large.
    """
    limit = _LARGEST if most is None else most
    with open_plain(path) as stream:
        content = BufferedReader(stream).read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", str(path))
    return content


@contextlib.contextmanager
def open_below(folder: Path, name: Union[str, PurePath]) -> Iterator[FileIO]:
    """Yield a stream of a plain file of a folder that somebody else filled, such as a clone of a repository.

    A link in such a folder may lead to a secret of this user, or to /proc/self/environ. What counts is where the file
    that is open lies, not where its name led a moment before. Links to files in the folder are followed; on the way to
    it there are none any more: see `chosen`.

    Raises:
        OSError: it can't be read, is not a plain file, or is not in the folder; `strerror` says what to do.
    """
    with _found_below(folder, name) as (place, status):
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(folder / name))
        descriptor = _opened(place)
    with FileIO(descriptor) as stream:
        yield stream


def chosen(path: Path) -> Path:
    """Return the absolute path of a file or folder that this user names, without links and `..` on the way to it.

    That is done once for each name. Whoever may change the folders on the way could lead a second look elsewhere.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - without '..'
    return Path(os.path.realpath(path.parent), path.name)


def content_below(folder: Path, name: Union[str, PurePath], *, longest: int = _LARGEST) -> bytes:
    """Return the content of a small file of a folder that somebody else filled; see `open_below`."""
    with open_below(folder, name) as stream:
        content = BufferedReader(stream).read(longest + 1)
    if len(content) > longest:
        raise OSError(errno.EFBIG, f"larger than {longest} bytes", str(folder / name))
    return content


def check_below(folder: Path, name: Union[str, PurePath]) -> None:
    """Refuse what another program must not copy out of a folder that somebody else filled; see `open_below`.

    In folders, what is in them counts, and in folders that links name.

    Raises:
        OSError: it is not there or not in the folder, or neither a plain file nor a folder; `strerror` says what to do.
    """
    left, known = [PurePath(name)], set()
    while left:
        path = left.pop()
        with _found_below(folder, path) as (place, status):
            if stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) not in known:
                    known.add((status.st_dev, status.st_ino))
                    left += [path / one for one in os.listdir(f"/proc/self/fd/{place}")]  # noqa: PTH208 - of a descriptor
            elif not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a plain file", str(folder / path))


def copy_below(
    folder: Path, name: Union[str, PurePath], target: Path, *, left_out: Sequence[str] = (), follows: bool = True
) -> None:
    """Copy a file, or a folder with all that is in it, out of a folder that somebody else filled; see `open_below`.

    In a folder that is copied, links stay links, and names that match patterns in `left_out` are skipped. Each name is
    opened once and never through a link, so that only what is in the folder is copied, whatever changes meanwhile. If
    the name itself is not followed either, the copy of a link is a link.

    Raises:
        OSError: it can't be copied, has something that is neither a plain file nor a folder, or the target exists.
    """
    flags = 0 if follows else os.O_NOFOLLOW
    with _found_below(folder, name, flags) as (place, _status), each_level_a_call(folder / name):
        _copy(place, str(target), None, left_out)


def chmod_below(folder: Path, name: Union[str, PurePath], mode: int) -> None:
    """Set the permission bits of a file of a folder in which others may change names; see `open_below`."""
    with _found_below(folder, name) as (place, status):
        if stat.S_IMODE(status.st_mode) != mode:
            os.chmod(f"/proc/self/fd/{place}", mode)  # noqa: PTH101 - of a descriptor


@contextlib.contextmanager
def held_folder(path: Path) -> Iterator[tuple[Path, int]]:
    """Yield a path that leads to a folder whatever is done to its name, and its permission bits; OSError for a link."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}"), stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)


def _copy(place: int, target: str, into: Optional[int], left_out: Sequence[str]) -> None:
    """Copy what a descriptor of O_PATH leads to, to a new name in a folder that is open."""
    status = os.fstat(place)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink("", dir_fd=place), target, dir_fd=into)
        return
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder and not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", _path_of(place))
    if is_folder:
        os.mkdir(target, 0o700, dir_fd=into)
    with contextlib.ExitStack() as stack:
        source = _opened(place)
        stack.callback(os.close, source)
        flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_WRONLY | os.O_CREAT | os.O_EXCL
        copy = os.open(target, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=into)
        stack.callback(os.close, copy)
        if is_folder:
            for name in os.listdir(source):  # noqa: PTH208 - of a descriptor
                if any(fnmatch(name, pattern) for pattern in left_out):
                    continue
                inner = os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=source)
                try:
                    _copy(inner, name, copy, left_out)
                finally:
                    os.close(inner)
        else:
            with open(source, "rb", closefd=False) as reader, open(copy, "wb", closefd=False) as writer:
                shutil.copyfileobj(reader, writer, 4 << 20)
        # another user's bits must neither make programs of this user's that run as this user, nor let everybody write
        os.fchmod(copy, stat.S_IMODE(status.st_mode) & (0o2775 if is_folder else 0o775))
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        if into is None:
            os.fsync(copy)


def _opened(place: int) -> int:
    """Open for reading what a descriptor of O_PATH leads to."""
    try:
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise OSError(error.errno, error.strerror, _path_of(place)) from error


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - names need not be text


@contextlib.contextmanager
def _found_below(folder: Path, name: Union[str, PurePath], flags: int = 0) -> Iterator[tuple[int, os.stat_result]]:
    """Yield a descriptor of what a name leads to in a folder, and its status; it is not opened for reading.

    O_PATH has no effect on devices and does not wait at FIFOs, and needs no right to read. The kernel tells the path of
    what is open.
    """
    with contextlib.ExitStack() as stack:
        places = []
        for path, more in ((folder, os.O_DIRECTORY), (folder / name, flags)):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | more)
            stack.callback(os.close, descriptor)
            places.append(Path(_path_of(descriptor)))
        top, place = places
        if top != folder:
            raise OSError(
                errno.ELOOP, f"a link on the way to it leads to '{top}': name that folder", str(folder / name)
            )
        if not place.is_relative_to(top):
            raise OSError(
                errno.EXDEV,
                f"it leads out of its folder, to '{place}': put a copy there if that is meant",
                str(folder / name),
            )
        yield descriptor, os.fstat(descriptor)


def size_of(path: Path) -> int:
    """Return the size of a file, for its progress; 0 if it is missing, which whoever reads it reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def cvmfs_repository(path: Path) -> str:
    """Return the name of the CVMFS repository that a file is in; empty if it is on another file system.

    CVMFS loads what is read, and compares each piece with its hash; `user.fqrn` is an attribute of each of its files
    (cvmfs documentation, "Extended attributes"), and anybody may set it elsewhere, where it is not read-only.
    """
    try:
        is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
        return os.getxattr(path, "user.fqrn").decode("ascii", "replace") if is_read_only else ""
    except OSError:
        return ""


def is_text(folder: Path, name: str) -> bool:
    """Return whether a file of a folder that somebody else filled is a text in UTF-8, and not too large for one."""
    try:
        content_below(folder, name).decode()
    except UnicodeDecodeError:
        return False
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        return False
    return True


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
    """Return how many files a file system can still take; None if it makes inodes on demand, and reports no number."""
    status = os.statvfs(folder)
    return status.f_favail if status.f_files else None


def folders_below(top: Path) -> Iterator[Path]:
    """Yield a folder and all that are in it, as far as they can be listed; nothing for a file or a link."""
    waiting = [top] if top.is_dir() and not top.is_symlink() else []
    while waiting:
        folder = waiting.pop()
        yield folder
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            waiting += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]


def walk(top: Path, unread: Optional[list[OSError]] = None) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield what os.walk does, which calls itself for each level before Python 3.12; without links to folders."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as error:
            if unread is not None:
                unread.append(error)
            continue
        folders = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        # without a look at what is no link, and without an error for a link to itself
        are_links = (entry.name for entry in found if entry.is_symlink() and os.path.isdir(entry))  # noqa: PTH112 - of an entry
        yield folder, folders, sorted({entry.name for entry in found}.difference(folders, are_links))
        waiting += [folder / name for name in reversed(folders)]


@contextlib.contextmanager
def each_level_a_call(top: Path) -> Iterator[None]:
    """Do what Python does with a tree by a call for each level: one with more levels than calls is an OSError."""
    try:
        yield
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EMFILE:
            raise
        raise OSError(errno.ELOOP, "it has too many folders, each in the other", str(top)) from error


def inside(top: Path, name: str) -> Path:
    """Return the path of a file from a name in a manifest or journal, in an installation or another such folder.

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
