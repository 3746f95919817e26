"""Compare a directory of user software with the packed file, without a container: names, kinds, sizes and link targets.

`share/inside/trees.py` compares contents and modes too, but needs a container.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from sifmod.host.files import open_plain
from sifmod.image.squashfs import DIRECTORY, FILE, LINK, OTHER, SquashFs
from sifmod.inside.trees import FOLDER_MODES
from sifmod.text.printable import few

_KINDS = {stat.S_IFDIR: DIRECTORY, stat.S_IFREG: FILE, stat.S_IFLNK: LINK}


@dataclass(frozen=True)
class Comparison:
    """Paths that the two don't have in common, or in another kind, size or link target; of a missing folder its own."""

    only_in_directory: tuple[str, ...]
    only_in_packed: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def text(self) -> str:
        """The differences on one line; empty if there are none."""
        parts = {
            "only in the directory": self.only_in_directory,
            "only in the packed file": self.only_in_packed,
            "different": self.different,
        }
        return "; ".join(f"{what}: {few([*map(repr, paths)], 5)}" for what, paths in parts.items() if paths)


def compare_with_packed(directory: Path, packed: Path) -> Comparison:
    """Compare a directory with a packed file.

    Raises:
        ImageError: the packed file is damaged, or exceeds the limits of the reader.
        OSError: a file or folder can't be read.
    """
    only_in_directory, only_in_packed, different = [], [], []
    with BufferedReader(open_plain(packed)) as stream:
        squashfs = SquashFs(stream, name=str(packed), size=os.fstat(stream.fileno()).st_size)
        pending = [("", squashfs.root)]
        while pending:
            folder, reference = pending.pop()
            listing = squashfs.listing(squashfs.inode(reference))
            with os.scandir(directory / folder) as entries:
                present = {entry.name: entry for entry in entries if folder or not entry.name.startswith(FOLDER_MODES)}
            only_in_directory += [os.path.join(folder, name) for name in present.keys() - listing.keys()]  # noqa: PTH118 - names, not files
            only_in_packed += [os.path.join(folder, name) for name in listing.keys() - present.keys()]  # noqa: PTH118 - names, not files
            for name in present.keys() & listing.keys():
                path = os.path.join(folder, name)  # noqa: PTH118 - a name, not a file
                kind, inode = listing[name]
                if not _is_same(present[name], squashfs, kind, inode):
                    different.append(path)
                elif kind == DIRECTORY:
                    pending.append((path, inode))
    return Comparison(tuple(sorted(only_in_directory)), tuple(sorted(only_in_packed)), tuple(sorted(different)))


def _is_same(entry: os.DirEntry[str], squashfs: SquashFs, kind: str, reference: int) -> bool:
    status = entry.stat(follow_symlinks=False)
    if _KINDS.get(stat.S_IFMT(status.st_mode), OTHER) != kind:
        return False
    if kind == FILE:
        return status.st_size == squashfs.inode(reference).size
    return kind != LINK or os.readlink(entry.path) == squashfs.target(squashfs.inode(reference))  # noqa: PTH115 - a Path would normalize the target
