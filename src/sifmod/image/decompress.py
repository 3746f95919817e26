"""Decompressing one block of a SquashFS into a buffer of limited size.

zlib and lzma come with Python. lzo, lz4 and zstd are the libraries that squashfs-tools itself uses, called through
ctypes: sifmod's own module (easyconfigs/s/sifmod) consists of Python files only, so that it needs no compiler.
"""

from __future__ import annotations

import ctypes
import lzma
import zlib
from functools import cache
from typing import Any

from sifmod.errors import ImageError

# Numbers in a superblock (fs/squashfs/squashfs_fs.h).
COMPRESSORS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}

# File name of the library, and its package in Debian and in Fedora.
_LIBRARIES = {
    "lzo": ("liblzo2.so.2", "liblzo2-2 or lzo"),
    "lz4": ("liblz4.so.1", "liblz4-1 or lz4-libs"),
    "zstd": ("libzstd.so.1", "libzstd1 or libzstd"),
}
_MOST_LZMA_MEMORY = 128 << 20  # bytes; mksquashfs's dictionaries have the size of a block, 1 MiB at most


class DamagedBlockError(ValueError):
    """A block can't be decompressed, or is larger than its limit."""


def decompress(compressor: str, data: bytes, most: int) -> bytes:
    """Return a decompressed block."""
    if compressor in _LIBRARIES:
        return _by_library(compressor, data, most)
    try:
        if compressor == "gzip":
            engine: Any = zlib.decompressobj()
        elif compressor == "xz":
            engine = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_LZMA_MEMORY)
        else:
            # mksquashfs writes the size into the header, and also an end mark: liblzma before 5.2.6 rejects both
            data = data[:5] + b"\xff" * 8 + data[13:]
            engine = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_MOST_LZMA_MEMORY)
        unpacked: bytes = engine.decompress(data, most)
        if not engine.eof and engine.decompress(getattr(engine, "unconsumed_tail", b""), 1):
            raise DamagedBlockError(f"it has more than {most} bytes")
    except (zlib.error, lzma.LZMAError, EOFError, MemoryError) as error:
        raise DamagedBlockError(str(error)) from error
    if not engine.eof:
        raise DamagedBlockError("it is truncated")
    return unpacked


def _by_library(compressor: str, data: bytes, most: int) -> bytes:
    library = _library(compressor)
    buffer = ctypes.create_string_buffer(most)
    if compressor == "zstd":
        written = library.ZSTD_decompress(buffer, ctypes.c_size_t(most), data, ctypes.c_size_t(len(data)))
        if library.ZSTD_isError(ctypes.c_size_t(written)):
            raise DamagedBlockError(f"it is not a zstd block of at most {most} bytes")
    elif compressor == "lz4":
        written = library.LZ4_decompress_safe(data, buffer, ctypes.c_int(len(data)), ctypes.c_int(most))
        if written < 0:
            raise DamagedBlockError(f"it is not an lz4 block of at most {most} bytes")
    else:
        length = ctypes.c_size_t(most)
        status = library.lzo1x_decompress_safe(data, ctypes.c_size_t(len(data)), buffer, ctypes.byref(length), None)
        if status:
            raise DamagedBlockError(f"lzo returned the error {status}")
        written = length.value
    return buffer.raw[:written]


@cache
def _library(compressor: str) -> Any:
    name, packages = _LIBRARIES[compressor]
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImageError(
            f"reading a SquashFS compressed with {compressor} needs the library {name}: install it (package "
            f"{packages}), or run sifmod on a node that has it"
        ) from error
    if compressor == "zstd":
        library.ZSTD_decompress.restype = ctypes.c_size_t
    return library
