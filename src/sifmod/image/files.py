"""The files of an image, read-only: the same interface for a SquashFS and a sandbox.

Links are followed within the image, as for a process in the container: an absolute target starts at the image's root,
and `..` ends there. Files outside a sandbox are never opened.

A hostile image can make the sum of many cheap reads endless, for example with thousands of directories that share one
listing. So there are limits to the names listed, the paths cached and the time spent.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Optional, TypeVar

from sifmod.errors import ImageError
from sifmod.image.squashfs import DIRECTORY, FILE, LINK, MOST_NAMES, OTHER, Inode, SquashFs, takes_too_much

Node = TypeVar("Node")

_MOST_LINKS = 40  # on one path, as in the kernel
_LONGEST_PATH = 4096  # characters of a path or a link's target: the kernel's PATH_MAX, in bytes
_MOST_PATHS = 20_000  # in the cache; others are looked up again
_MOST_SECONDS = 60  # processor time for one image; conda with 40 environments of 400 packages takes 1
_TEXT = 1 << 20  # bytes read from a text file
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class ImageFiles(ABC, Generic[Node]):
    """The files of an image. Paths are absolute paths in the image; an unreadable file counts as missing.

    Every method raises an ImageError if the image is damaged, or exceeds the limits for names or time. The name is the
    image's path, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[str, Optional[tuple[str, str, Node]]] = {}
        self._names_listed = 0
        self._begun = time.process_time()

    @abstractmethod
    def _root(self) -> Node: ...

    @abstractmethod
    def _child(self, node: Node, name: str) -> Optional[tuple[str, Node]]:
        """Return kind and node of an entry of a directory."""

    @abstractmethod
    def _names(self, node: Node) -> list[str]: ...

    @abstractmethod
    def _target(self, node: Node) -> str: ...

    @abstractmethod
    def _content(self, node: Node, start: int, limit: int) -> bytes: ...

    @abstractmethod
    def _size(self, node: Node) -> int: ...

    @abstractmethod
    def _mode(self, node: Node) -> int: ...

    def _find(self, path: str) -> Optional[tuple[str, str, Node]]:
        """Return the path without links, the kind and the node of a path; None if it does not exist."""
        if path in self._known:
            return self._known[path]
        if len(path) > _LONGEST_PATH:
            return None
        self._check_time()
        entry = self._walk(path)
        if entry and len(entry[0]) > _LONGEST_PATH:
            entry = None
        if len(self._known) >= _MOST_PATHS:
            self._known.clear()
        self._known[path] = entry
        return entry

    def _check_time(self) -> None:
        """Raise an error if reading this image has taken too much processor time, which excludes waiting for files."""
        if time.process_time() - self._begun > _MOST_SECONDS:
            raise takes_too_much(self.name, f"more than {_MOST_SECONDS} seconds of processor time")

    def _walk(self, path: str) -> Optional[tuple[str, str, Node]]:
        waiting = [part for part in path.split("/") if part not in ("", ".")][::-1]
        above: list[tuple[str, Node]] = [("", self._root())]
        kind, links = DIRECTORY, 0
        while waiting:
            part = waiting.pop()
            if kind != DIRECTORY:
                return None
            if part == "..":
                above = above[:-1] or above
                continue
            child = self._child(above[-1][1], part)
            if child is None:
                return None
            kind, node = child
            if kind == LINK:
                links += 1
                target = self._target(node)
                if links > _MOST_LINKS or not 0 < len(target) <= _LONGEST_PATH:
                    return None
                if target.startswith("/"):
                    above = above[:1]
                waiting.extend([item for item in target.split("/") if item not in ("", ".")][::-1])
                kind = DIRECTORY
                continue
            if kind == DIRECTORY:
                above.append((part, node))
            else:
                return None if waiting else ("/".join([*(name for name, _ in above), part]), kind, node)
        return "/".join(name for name, _ in above) or "/", kind, above[-1][1]

    def resolved(self, path: str) -> str:
        """Return a path without links; empty if it does not exist."""
        entry = self._find(path)
        return entry[0] if entry else ""

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory, or a link to one."""
        entry = self._find(path)
        return entry is not None and entry[1] == DIRECTORY

    def is_file(self, path: str) -> bool:
        """Return whether the path is a file, or a link to one."""
        entry = self._find(path)
        return entry is not None and entry[1] == FILE

    def is_program(self, path: str) -> bool:
        """Return whether the path is a file that somebody may execute, or a link to one."""
        entry = self._find(path)
        return entry is not None and entry[1] == FILE and bool(self._mode(entry[2]) & _EXECUTABLE)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; empty if it does not exist."""
        entry = self._find(path)
        if not entry or entry[1] != DIRECTORY:
            return []
        names = self._names(entry[2])
        self._names_listed += len(names)
        if self._names_listed > MOST_NAMES:
            raise takes_too_much(self.name, f"listing more than {MOST_NAMES:,} file names")
        return sorted(names)

    def size(self, path: str) -> int:
        """Return the size of a file in bytes; 0 if it does not exist."""
        entry = self._find(path)
        return self._size(entry[2]) if entry and entry[1] == FILE else 0

    def read(self, path: str, *, start: int = 0, limit: int = _TEXT) -> bytes:
        """Return a part of a file, from a byte on and at most so many bytes; empty if the file does not exist."""
        self._check_time()
        entry = self._find(path)
        if entry is None or entry[1] != FILE or start > self._size(entry[2]):
            return b""
        return self._content(entry[2], start, limit)

    def text(self, path: str, *, limit: int = _TEXT) -> str:
        """Return the start of a file as text, with invalid UTF-8 replaced."""
        return self.read(path, limit=limit).decode("utf-8", "replace")


@dataclass(frozen=True)
class _InSquashFs:
    kind: str
    reference: int


class SquashFsFiles(ImageFiles[_InSquashFs]):
    """The files of a SquashFS."""

    def __init__(self, squashfs: SquashFs) -> None:
        super().__init__(squashfs.name)
        self._squashfs = squashfs
        self._listings: dict[int, Mapping[str, tuple[str, int]]] = {}

    def _root(self) -> _InSquashFs:
        return _InSquashFs(DIRECTORY, self._squashfs.root)

    def _inode(self, node: _InSquashFs) -> Inode:
        inode = self._squashfs.inode(node.reference)
        if inode.kind != node.kind:
            raise ImageError(
                f"the SquashFS in '{self.name}' is damaged: an entry is listed as {node.kind}, but its inode is a "
                f"{inode.kind}. Fetch or build it again"
            )
        return inode

    def _listing(self, node: _InSquashFs) -> Mapping[str, tuple[str, int]]:
        if node.reference not in self._listings:
            self._listings[node.reference] = self._squashfs.listing(self._inode(node))
        return self._listings[node.reference]

    def _child(self, node: _InSquashFs, name: str) -> Optional[tuple[str, _InSquashFs]]:
        entry = self._listing(node).get(name)
        return (entry[0], _InSquashFs(*entry)) if entry else None

    def _names(self, node: _InSquashFs) -> list[str]:
        return list(self._listing(node))

    def _target(self, node: _InSquashFs) -> str:
        return self._squashfs.target(self._inode(node))

    def _content(self, node: _InSquashFs, start: int, limit: int) -> bytes:
        return self._squashfs.read(self._inode(node), start=start, limit=limit)

    def _size(self, node: _InSquashFs) -> int:
        return self._inode(node).size

    def _mode(self, node: _InSquashFs) -> int:
        return int(self._inode(node).structure.mode)


class SandboxFiles(ImageFiles[Path]):
    """The files below a directory of the host."""

    def __init__(self, top: Path) -> None:
        super().__init__(str(top))
        self._top = top
        self._real = os.path.realpath(top)

    def _root(self) -> Path:
        return self._top

    def _child(self, node: Path, name: str) -> Optional[tuple[str, Path]]:
        path = node / name
        try:
            mode = path.lstat().st_mode
        except OSError:
            return None
        kinds = {stat.S_IFDIR: DIRECTORY, stat.S_IFREG: FILE, stat.S_IFLNK: LINK}
        return kinds.get(stat.S_IFMT(mode), OTHER), path

    def _names(self, node: Path) -> list[str]:
        try:
            with os.scandir(node) as entries:
                return [entry.name for entry in itertools.islice(entries, MOST_NAMES + 1)]
        except OSError:
            return []

    def _target(self, node: Path) -> str:
        try:
            return str(os.readlink(node))  # noqa: PTH115 - a Path would normalize the target
        except OSError:
            return ""

    def _content(self, node: Path, start: int, limit: int) -> bytes:
        with contextlib.suppress(OSError):
            # the file may have been replaced by a link or a FIFO meanwhile
            descriptor = os.open(node, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                # a folder on the way may be a link by now, and lead to a secret of this user
                place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - names need not be text
                if stat.S_ISREG(os.fstat(descriptor).st_mode) and place.is_relative_to(self._real):
                    return os.pread(stream.fileno(), limit, start)
        return b""

    def _size(self, node: Path) -> int:
        try:
            return node.lstat().st_size
        except OSError:
            return 0

    def _mode(self, node: Path) -> int:
        try:
            return node.lstat().st_mode
        except OSError:
            return 0
