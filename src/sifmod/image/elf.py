"""What a shared library says of itself and needs: its ELF headers, read by pyelftools from the files of an image."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, cast

from sifmod.errors import ImageError
from sifmod.image.files import ImageFiles
from sifmod.text.version import version_order

if TYPE_CHECKING:
    from elftools.elf.gnuversions import GNUVerNeedSection

_LONGEST = 512 << 20  # bytes; the largest libraries that are looked at have 50 MB
_BUFFER = 1 << 16
_MOST_NEEDED = 1000  # libraries and versions


@dataclass(frozen=True)
class SharedLibrary:
    """The headers of a shared library.

    Attributes:
        soname: the name that programs need it by; empty if it has none.
        needed: the names of the libraries that it needs.
        glibc: the version of glibc that it needs, such as `2.34`; empty if it needs none.
    """

    soname: str
    needed: tuple[str, ...]
    glibc: str


class _Stream(io.RawIOBase):
    """A file of an image as a stream; each read is subject to the limits of the image's files."""

    def __init__(self, files: ImageFiles[Any], path: str) -> None:
        self._files, self._path, self._position = files, path, 0
        self._size = files.size(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._files.read(self._path, start=self._position, limit=len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def read_library(files: ImageFiles[Any], path: str) -> Optional[SharedLibrary]:
    """Return the headers of a shared library; None if the file is not one, or is damaged.

    Args:
        files: files of the image.
        path: path of the library.

    Raises:
        ImageError: the image is damaged, or exceeds the limits for time.
    """
    if files.size(path) > _LONGEST or files.read(path, limit=4) != b"\x7fELF":
        return None
    # here, because they are 50 modules, and most images have no library that is read
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    try:
        elf = ELFFile(io.BufferedReader(_Stream(files, path), _BUFFER))
        dynamic = elf.get_section_by_name(".dynamic")
        versions = elf.get_section_by_name(".gnu.version_r")
        if not isinstance(dynamic, DynamicSection):
            return None
        soname = ""
        needed: list[str] = []
        for tag in cast(Any, dynamic).iter_tags():  # the names are attributes that no type knows
            if tag.entry.d_tag == "DT_SONAME":
                soname = tag.soname
            elif tag.entry.d_tag == "DT_NEEDED" and len(needed) < _MOST_NEEDED:
                needed.append(tag.needed)
        symbols = list(_needed_versions(versions)) if isinstance(versions, GNUVerNeedSection) else []
    except ImageError:
        raise
    except Exception:  # for a damaged file pyelftools raises whatever its parts happen to raise
        return None
    return SharedLibrary(soname, tuple(needed), newest_glibc(symbols))


def _needed_versions(section: GNUVerNeedSection) -> Iterable[str]:
    """Yield the versions of symbols that a library needs, such as `GLIBC_2.34`."""
    count = 0
    for _, versions in section.iter_versions():
        for version in versions:
            count += 1
            if count > _MOST_NEEDED:
                return
            yield version.name


def newest_glibc(versions: Iterable[str]) -> str:
    """Return the newest version of glibc among versions of symbols; empty if there is none.

    Args:
        versions: versions of symbols, such as `GLIBC_2.34` and `GLIBC_PRIVATE`.
    """
    numbers = [name[len("GLIBC_") :] for name in versions if name.startswith("GLIBC_2")]
    return max(numbers, key=version_order, default="")
