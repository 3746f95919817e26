"""ELF files of an image, read by pyelftools: what a shared library says of itself and needs; where a section is."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, cast

from sifmod.errors import ImageError
from sifmod.image.files import ImageFiles
from sifmod.text.version import version_order

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

Seen = TypeVar("Seen")

_LONGEST = 512 << 20  # bytes; the largest libraries that are looked at have 50 MB
_BUFFER = 1 << 16
_MOST_NEEDED = 1000  # libraries and versions
_MOST_SECTIONS = 1000


@dataclass(frozen=True)
class SharedLibrary:
    """The headers of a shared library: its name, the libraries and the glibc that it needs; empty for none."""

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
    """Return the headers of a shared library in an image; None if the file is not one, or is damaged."""
    return _read(files, path, _library) if files.size(path) <= _LONGEST else None


def section_of(files: ImageFiles[Any], path: str, name: str) -> Optional[tuple[int, int]]:
    """Return start and end of a section; None if the file lacks it, is damaged, or is not in the ELF format."""

    def look(elf: ELFFile) -> Optional[tuple[int, int]]:
        section = elf.get_section_by_name(name)
        return (section["sh_offset"], section["sh_offset"] + section["sh_size"]) if section else None

    return _read(files, path, look)


def _read(files: ImageFiles[Any], path: str, look: Callable[[ELFFile], Optional[Seen]]) -> Optional[Seen]:
    if files.read(path, limit=4) != b"\x7fELF":
        return None
    # here, because they are 50 modules, and most images have no library that is read
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BufferedReader(_Stream(files, path), _BUFFER))
        return look(elf) if elf.num_sections() <= _MOST_SECTIONS else None
    except ImageError:
        raise
    except Exception:  # for a damaged file pyelftools raises whatever its parts happen to raise
        return None


def _library(elf: ELFFile) -> Optional[SharedLibrary]:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.gnuversions import GNUVerNeedSection

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
    """Return the newest version of glibc among versions of symbols; empty if there is none."""
    numbers = [name[len("GLIBC_") :] for name in versions if name.startswith("GLIBC_2")]
    return max(numbers, key=version_order, default="")
