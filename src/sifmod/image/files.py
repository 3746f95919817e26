"""The files of an image, read only: the same view of a SquashFS and of a sandbox.

Links are followed within the image, as a process that runs in it would: an absolute target begins at the image's root,
and `..` ends there. Nothing outside of a sandbox is ever opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Optional, TypeVar

from sifmod.errors import ImageError
from sifmod.image.squashfs import DIRECTORY, FILE, LINK, OTHER, Inode, SquashFs

Node = TypeVar("Node")

_MOST_LINKS = 40  # on one path, as in the kernel
_TEXT = 1 << 20  # bytes read of a file that is wanted as text


class ImageFiles(ABC, Generic[Node]):
    """The files of an image. Paths are absolute, in the image; what can't be read counts as absent."""

    def __init__(self) -> None:
        self._known: dict[str, Optional[tuple[str, str, Node]]] = {}

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

    def _find(self, path: str) -> Optional[tuple[str, str, Node]]:
        """Return the path without links, the kind and the node of a path; None where there is nothing."""
        if path not in self._known:
            self._known[path] = self._walk(path)
        return self._known[path]

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
            found = self._child(above[-1][1], part)
            if found is None:
                return None
            kind, node = found
            if kind == LINK:
                links += 1
                target = self._target(node)
                if links > _MOST_LINKS or not target:
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
        """Return a path without links; empty where there is nothing."""
        found = self._find(path)
        return found[0] if found else ""

    def is_directory(self, path: str) -> bool:
        """Return whether there is a directory, also at the end of links."""
        found = self._find(path)
        return found is not None and found[1] == DIRECTORY

    def is_file(self, path: str) -> bool:
        """Return whether there is a file, also at the end of links."""
        found = self._find(path)
        return found is not None and found[1] == FILE

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; none where there is none."""
        found = self._find(path)
        return sorted(self._names(found[2])) if found and found[1] == DIRECTORY else []

    def size(self, path: str) -> int:
        """Return the bytes of a file; 0 where there is none."""
        found = self._find(path)
        return self._size(found[2]) if found and found[1] == FILE else 0

    def read(self, path: str, *, start: int = 0, limit: int = _TEXT) -> bytes:
        """Return a piece of a file; nothing where there is none.

        Args:
            path: of the file.
            start: of the piece, in bytes.
            limit: bytes at most.
        """
        found = self._find(path)
        if found is None or found[1] != FILE or start > self._size(found[2]):
            return b""
        return self._content(found[2], start, limit)

    def text(self, path: str, *, limit: int = _TEXT) -> str:
        """Return the beginning of a file as text; what is not UTF-8 in it is replaced."""
        return self.read(path, limit=limit).decode("utf-8", "replace")


@dataclass(frozen=True)
class _InSquashFs:
    kind: str
    reference: int


class SquashFsFiles(ImageFiles[_InSquashFs]):
    """The files of a SquashFS."""

    def __init__(self, squashfs: SquashFs) -> None:
        super().__init__()
        self._squashfs = squashfs
        self._listings: dict[int, Mapping[str, tuple[str, int]]] = {}

    def _root(self) -> _InSquashFs:
        return _InSquashFs(DIRECTORY, self._squashfs.root)

    def _inode(self, node: _InSquashFs) -> Inode:
        inode = self._squashfs.inode(node.reference)
        if inode.kind != node.kind:
            raise ImageError(f"the SquashFS is damaged: a {node.kind} turned out to be a {inode.kind}. Build it again")
        return inode

    def _listing(self, node: _InSquashFs) -> Mapping[str, tuple[str, int]]:
        if node.reference not in self._listings:
            self._listings[node.reference] = self._squashfs.listing(self._inode(node))
        return self._listings[node.reference]

    def _child(self, node: _InSquashFs, name: str) -> Optional[tuple[str, _InSquashFs]]:
        found = self._listing(node).get(name)
        return (found[0], _InSquashFs(*found)) if found else None

    def _names(self, node: _InSquashFs) -> list[str]:
        return list(self._listing(node))

    def _target(self, node: _InSquashFs) -> str:
        return self._squashfs.target(self._inode(node))

    def _content(self, node: _InSquashFs, start: int, limit: int) -> bytes:
        return self._squashfs.read(self._inode(node), start=start, limit=limit)

    def _size(self, node: _InSquashFs) -> int:
        return self._inode(node).size


class SandboxFiles(ImageFiles[Path]):
    """The files below a directory of the host."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        self._top = top

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
            return [path.name for path in node.iterdir()]
        except OSError:
            return []

    def _target(self, node: Path) -> str:
        try:
            return str(os.readlink(node))  # noqa: PTH115 - of the name as it is
        except OSError:
            return ""

    def _content(self, node: Path, start: int, limit: int) -> bytes:
        with contextlib.suppress(OSError):
            # what was a file a moment ago may be a link or a FIFO by now
            descriptor = os.open(node, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return os.pread(stream.fileno(), limit, start)
        return b""

    def _size(self, node: Path) -> int:
        try:
            return node.lstat().st_size
        except OSError:
            return 0
