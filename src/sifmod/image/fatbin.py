"""The NVIDIA GPUs that a library was compiled for, read from the headers of its embedded programs.

A CUDA library has its GPU programs in the ELF section `.nv_fatbin`: containers, each with one entry per architecture.
NVIDIA does not document the layout: this one was seen in the library of torchvision 0.29.1 for CUDA 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Optional

from sifmod.image.files import ImageFiles

_ELF = struct.Struct("<4s2B34xQ10x3H")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ12xI")
_MAGIC = 0xBA55ED50
_PTX = 1
_MOST_SECTIONS = 1000
_MOST_NAMES = 65_536  # bytes
# PyTorch has thousands of containers with the same architectures: the first ones are enough.
_MOST_ENTRIES = 60


def cuda_architectures(files: ImageFiles[Any], path: str) -> tuple[str, ...]:
    """Return the architectures of the first GPU programs of a library, such as `8.0` and `9.0+PTX`, sorted.

    Args:
        files: files of the image.
        path: path of the library; the result is empty if it is not a CUDA library.
    """
    section = _section(files, path, b".nv_fatbin")
    found = set(_entries(files, path, *section)) if section else set()
    return tuple(f"{number // 10}.{number % 10}{'+PTX' if kind == _PTX else ''}" for number, kind in sorted(found))


def _section(files: ImageFiles[Any], path: str, wanted: bytes) -> Optional[tuple[int, int]]:
    """Return start and end of a section of a 64-bit ELF file."""
    head = files.read(path, limit=_ELF.size)
    if len(head) < _ELF.size:
        return None
    magic, bits, order, start, size, count, names = _ELF.unpack(head)
    if (magic, bits, order, size) != (b"\x7fELF", 2, 1, _SECTION.size) or not names < count <= _MOST_SECTIONS:
        return None
    table = files.read(path, start=start, limit=count * size)
    if len(table) != count * size:
        return None
    sections = list(_SECTION.iter_unpack(table))
    text = files.read(path, start=sections[names][4], limit=min(sections[names][5], _MOST_NAMES))
    for section in sections:
        if text[section[0] :].partition(b"\0")[0] == wanted:
            return section[4], section[4] + section[5]
    return None


def _entries(files: ImageFiles[Any], path: str, position: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield architecture and kind of the first entries."""
    inner = position
    for _ in range(_MOST_ENTRIES):
        if position >= inner:
            data = files.read(path, start=position, limit=_CONTAINER.size)
            if len(data) < _CONTAINER.size or position >= end:
                return
            magic, _version, head, size = _CONTAINER.unpack(data)
            if magic != _MAGIC:
                return
            inner = position + head + size
            position += head
        data = files.read(path, start=position, limit=_ENTRY.size)
        if len(data) < _ENTRY.size:
            return
        kind, _version, head, size, architecture = _ENTRY.unpack(data)
        if 10 <= architecture < 1000:
            yield architecture, kind
        if not head + size:
            return
        position += head + size
