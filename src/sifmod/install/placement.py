"""Placing an image in an installation: copied and hashed in one pass, or linked."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Callable, Optional

from sifmod.errors import ImageError, os_errors

_CHUNK = 4 * 1024 * 1024
# chunks in memory: the disk stops writers for a while now and then, and hashing then has some to go on with
_CHUNKS = 4
# bytes of one write: for larger ones ext4 (Linux 6.18) makes larger pages, which took five times as long as the rest
_WRITTEN = 128 * 1024
# bytes of the copy after which the page cache is asked to write them to disk, and then to drop them
_CACHED = 32 * 1024 * 1024

# ioctl that lets a file share another one's blocks (linux/fs.h): XFS and Btrfs have it, few parallel file systems do.
_FICLONE = 0x40049409


def _write_all(writer: FileIO, data: memoryview) -> None:
    while data:
        data = data[writer.write(data[:_WRITTEN]) or 0 :]


def copy_image(
    source: Path,
    target: Path,
    *,
    offset: int = 0,
    size: Optional[int] = None,
    progress: Callable[[int], object] = lambda _size: None,
) -> str:
    """Copy an image, or a part of it, to a new file and return the SHA-256 of that, in hexadecimal.

    Hashing and writing share one read: `hashlib` releases the interpreter lock on large buffers, so a second thread
    hashes chunks while this one writes them and reads further ones. As with cp, there is no fsync: an image can be
    copied again. Unlike with cp, the copy does not stay in the page cache, because all users of a login node share its
    memory.
    """
    digest = hashlib.sha256()
    problem = os_errors(ImageError, f"copying the image '{source}' to '{target}' failed")
    with problem, source.open("rb", buffering=0) as reader, ThreadPoolExecutor(max_workers=1) as hasher:
        if offset:
            reader.seek(offset)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as writer:
                hashing: deque[Future[None]] = deque()
                before = begin = end = 0
                for buffer in itertools.cycle([bytearray(_CHUNK) for _ in range(_CHUNKS)]):
                    if len(hashing) == _CHUNKS:
                        hashing.popleft().result()
                    view = memoryview(buffer)[: None if size is None else size - end]
                    length = reader.readinto(view) or 0
                    if not length:
                        break
                    hashing.append(hasher.submit(digest.update, view[:length]))
                    _write_all(writer, view[:length])
                    end += length
                    progress(length)
                    if end - begin >= _CACHED:
                        # for the older half it is the second time: pages are dropped once they are on disk
                        os.posix_fadvise(descriptor, before, end - before, os.POSIX_FADV_DONTNEED)
                        before, begin = begin, end
                for each in hashing:
                    each.result()
                if size is not None:
                    _check_length(source, end, size)
        except BaseException:
            target.unlink()
            raise
    return digest.hexdigest()


def _check_length(source: Path, copied: int, size: int) -> None:
    if copied < size:
        raise ImageError(f"the image '{source}' ends {size - copied} bytes too early: was it changed during the copy?")


# How a file came to have the bytes of an image without a copy.
REFLINK, HARD_LINK = "reflink", "hard link"


def link_image(source: Path, target: Path) -> str:
    """Link the target to the image, without copying: a reflink if possible, else a hard link."""
    with os_errors(ImageError, f"creating '{target}' failed"):
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777)
    try:
        with source.open("rb") as reader:
            fcntl.ioctl(descriptor, _FICLONE, reader.fileno())
    except OSError:
        target.unlink()
    else:
        return REFLINK
    finally:
        os.close(descriptor)
    # a hard link to somebody else's file needs write permission on that file (proc(5), protected_hardlinks)
    with contextlib.suppress(OSError):
        os.link(source.resolve(), target)
        return HARD_LINK
    return ""
