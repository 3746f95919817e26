"""The NVIDIA GPUs that a library was compiled for, read from the headers of its embedded programs.

A CUDA library has its GPU programs in the ELF section `.nv_fatbin`: containers, each with one entry per architecture.
NVIDIA does not document the layout: this one was seen in the library of torchvision 0.29.1 for CUDA 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from sifmod.image.elf import section_of
from sifmod.image.files import ImageFiles

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ12xI")
_MAGIC = 0xBA55ED50
_PTX = 1
# PyTorch has thousands of containers with the same architectures: the first ones are enough.
_MOST_ENTRIES = 60


def cuda_architectures(files: ImageFiles[Any], path: str) -> tuple[str, ...]:
    """Return the architectures of the first GPU programs of a library, such as `8.0` and `9.0+PTX`, sorted."""
    section = section_of(files, path, ".nv_fatbin")
    programs = set(_entries(files, path, *section)) if section else set()
    return tuple(f"{number // 10}.{number % 10}{'+PTX' if kind == _PTX else ''}" for number, kind in sorted(programs))


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
