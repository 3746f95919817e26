"""SquashFS 4.0, read without mounting it: only the blocks that are asked for, each with a limit.

The layout is that of the kernel's fs/squashfs/squashfs_fs.h. A damaged or hostile file ends in an ImageError, in
bounded time and memory: every position is checked, every block is unpacked into a buffer of its greatest size, and
the whole of what one reader unpacks has a limit.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from dataclasses import dataclass
from typing import IO

from sifmod.errors import ImageError
from sifmod.image.decompress import COMPRESSORS, DamagedBlockError, decompress

DIRECTORY, FILE, LINK, OTHER = "directory", "file", "link", "other"

_SUPERBLOCK = struct.Struct("<4s4I6H8Q")
_MAGIC = b"hsqs"
_METADATA = 8192  # bytes of a block of inodes, directory entries or fragment descriptions, unpacked
_HEADER = struct.Struct("<4H2I")
_DIRECTORY = struct.Struct("<2I2HI")
_LONG_DIRECTORY = struct.Struct("<4I2HI")
_FILE = struct.Struct("<4I")
_LONG_FILE = struct.Struct("<3Q4I")
_LINK = struct.Struct("<2I")
_LISTING = struct.Struct("<3I")
_ENTRY = struct.Struct("<2H2H")
_FRAGMENT = struct.Struct("<QII")
_NO_FRAGMENT = 0xFFFFFFFF
_KINDS = {1: DIRECTORY, 8: DIRECTORY, 2: FILE, 9: FILE, 3: LINK, 10: LINK}

_MOST_UNPACKED = 2 << 30  # bytes that one reader unpacks; an image with 500 packages needs about a tenth of it
_MOST_BLOCKS = 1 << 22  # of one file: 512 GiB at the usual size of blocks
_MOST_LISTING = 16 << 20  # bytes of one directory: about half a million names
_MOST_LINK = 65_536  # bytes of a link's target, as in the kernel
_CACHED_METADATA = 4096  # blocks
_CACHED_DATA = 16  # blocks


@dataclass(frozen=True)
class Inode:
    """One file, directory or link.

    Attributes:
        kind: `directory`, `file`, `link` or `other`.
        size: in bytes; of a directory, of its listing.
        start: where the data or the listing begins.
        offset: in the unpacked block there.
        fragment: number of the block with the end of the file.
        blocks: position of the list of blocks of a file, or of the target of a link, as (block, offset).
    """

    kind: str
    size: int
    start: int = 0
    offset: int = 0
    fragment: int = _NO_FRAGMENT
    blocks: tuple[int, int] = (0, 0)


class SquashFs:
    """A SquashFS within a file.

    Attributes:
        compression: name of its compressor, such as `zstd`.
        block_size: of its data blocks, in bytes.
        inodes: how many files, directories and links it says that it has.
        created: when it was made, in seconds since 1970.
        size: in bytes, as far as it is in use.
        root: reference of the root directory.
    """

    def __init__(self, stream: IO[bytes], *, name: str, offset: int = 0, size: int) -> None:
        """Read the superblock.

        Args:
            stream: the open file; it stays the caller's.
            name: of the file, for messages.
            offset: where the file system begins in it, in bytes.
            size: bytes that it may have at most.

        Raises:
            ImageError: there is no SquashFS 4.0, or a damaged one.
        """
        self._stream = stream
        self._name = name
        self._offset = offset
        self._limit = size
        self._unpacked = 0
        self._metadata: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        self._data: OrderedDict[int, bytes] = OrderedDict()
        if size < _SUPERBLOCK.size:
            raise ImageError(f"'{name}' holds no SquashFS: there are only {size} bytes. Fetch or build it again")
        fields = _SUPERBLOCK.unpack(self._raw(0, _SUPERBLOCK.size))
        magic, self.inodes, self.created, self.block_size, self._fragments, kind, log, _flags, _ids, *version = fields[
            :11
        ]
        self.root, self.size, _, _, self._inode_table, self._directory_table, self._fragment_table, _ = fields[11:]
        if magic != _MAGIC:
            raise ImageError(f"'{name}' holds no SquashFS: it begins with {magic!r}. Fetch or build it again")
        if version != [4, 0]:
            raise ImageError(f"'{name}' is a SquashFS of version {version[0]}.{version[1]}: only 4.0 can be read")
        if kind not in COMPRESSORS:
            raise self._damaged(f"it names the unknown compressor {kind}")
        self.compression = COMPRESSORS[kind]
        if not 12 <= log <= 20 or self.block_size != 1 << log:
            raise self._damaged(f"its block size is {self.block_size}")
        if self.size > size:
            raise self._damaged(f"it says that it has {self.size} bytes, but only {size} are there")
        if not _SUPERBLOCK.size <= self._inode_table < self._directory_table <= self.size:
            raise self._damaged("its tables are out of order")

    def inode(self, reference: int) -> Inode:
        """Return the inode of a reference, as `root` and `listing` give them.

        Raises:
            ImageError: it is damaged.
        """
        place = self._inode_table + (reference >> 16), reference & 0xFFFF
        data, place = self._metadata_bytes(place, _HEADER.size)
        number = _HEADER.unpack(data)[0]
        kind = _KINDS.get(number, OTHER)
        if kind == DIRECTORY and number == 1:
            start, _links, size, offset, _parent = self._fields(_DIRECTORY, place)[0]
            return Inode(kind, max(size - 3, 0), self._directory_table + start, offset)
        if kind == DIRECTORY:
            _links, size, start, _parent, _count, offset, _xattr = self._fields(_LONG_DIRECTORY, place)[0]
            return Inode(kind, max(size - 3, 0), self._directory_table + start, offset)
        if kind == FILE and number == 2:
            (start, fragment, offset, size), place = self._fields(_FILE, place)
            return Inode(kind, size, start, offset, fragment, place)
        if kind == FILE:
            (start, size, _sparse, _links, fragment, offset, _xattr), place = self._fields(_LONG_FILE, place)
            return Inode(kind, size, start, offset, fragment, place)
        if kind == LINK:
            (_links, size), place = self._fields(_LINK, place)
            return Inode(kind, size, blocks=place)
        return Inode(kind, 0)

    def listing(self, inode: Inode) -> dict[str, tuple[str, int]]:
        """Return kind and reference of each entry of a directory, by name.

        Raises:
            ImageError: it is damaged.
        """
        if inode.size > _MOST_LISTING:
            raise self._damaged(f"a directory claims a listing of {inode.size} bytes")
        data = self._metadata_bytes((inode.start, inode.offset), inode.size)[0] if inode.size else b""
        found: dict[str, tuple[str, int]] = {}
        position = 0
        try:
            while position < len(data):
                count, start, _number = _LISTING.unpack_from(data, position)
                position += _LISTING.size
                for _ in range(count + 1):
                    offset, _number, number, length = _ENTRY.unpack_from(data, position)
                    position += _ENTRY.size
                    name = data[position : position + length + 1]
                    position += length + 1
                    if len(name) != length + 1:
                        raise self._damaged("a name in a directory is cut off")
                    if b"/" in name or b"\0" in name or name in (b".", b".."):
                        raise self._damaged(f"a directory has an entry of the name {name!r}")
                    found[os.fsdecode(name)] = _KINDS.get(number, OTHER), start << 16 | offset
        except struct.error as error:
            raise self._damaged("a directory is cut off") from error
        return found

    def target(self, inode: Inode) -> str:
        """Return where a link points.

        Raises:
            ImageError: it is damaged.
        """
        if inode.size > _MOST_LINK:
            raise self._damaged(f"a link claims a target of {inode.size} bytes")
        return os.fsdecode(self._metadata_bytes(inode.blocks, inode.size)[0])

    def read(self, inode: Inode, *, limit: int, start: int = 0) -> bytes:
        """Return the content of a file, or a piece of it; only the blocks of the piece are read.

        Args:
            inode: of the file.
            limit: bytes at most.
            start: of the piece, in bytes.

        Raises:
            ImageError: it is damaged.
        """
        end = min(inode.size, start + limit)
        if start >= end:
            return b""
        whole = inode.size // self.block_size
        if inode.fragment == _NO_FRAGMENT and inode.size % self.block_size:
            whole += 1
        first, last = start // self.block_size, -(-end // self.block_size)
        wanted = min(last, whole)
        if wanted > _MOST_BLOCKS:
            raise self._damaged(f"a file claims {inode.size} bytes")
        sizes = struct.unpack(f"<{wanted}I", self._metadata_bytes(inode.blocks, wanted * 4)[0]) if wanted else ()
        pieces = []
        position = inode.start
        for number, size in enumerate(sizes):
            if number >= first:
                length = min(self.block_size, inode.size - number * self.block_size)
                block = self._data_block(position, size) if size else bytes(length)
                if len(block) != length:
                    raise self._damaged("a block of a file has the wrong length")
                pieces.append(block)
            position += size & 0xFFFFFF
        if last > whole and inode.fragment != _NO_FRAGMENT:
            tail = inode.size % self.block_size
            piece = self._fragment(inode.fragment)[inode.offset : inode.offset + tail]
            if len(piece) != tail:
                raise self._damaged("the end of a file is missing")
            pieces.append(piece)
        return b"".join(pieces)[start - first * self.block_size :][: end - start]

    def _damaged(self, how: str) -> ImageError:
        return ImageError(f"the SquashFS in '{self._name}' is damaged: {how}. Fetch or build it again")

    def _raw(self, position: int, length: int) -> bytes:
        """Return bytes of the file system as they lie in the file."""
        if position < 0 or position + length > self._limit:
            raise self._damaged(f"{length} bytes at {position} are beyond its end")
        try:
            data = os.pread(self._stream.fileno(), length, self._offset + position)
        except OSError as error:
            raise ImageError(f"'{self._name}' can't be read: {error.strerror}") from error
        if len(data) != length:
            raise self._damaged("the file ends before it does")
        return data

    def _block(self, position: int, length: int, *, is_packed: bool, most: int) -> bytes:
        """Return a block of the file system, unpacked."""
        data = self._raw(position, length)
        if is_packed:
            try:
                data = decompress(self.compression, data, most)
            except DamagedBlockError as error:
                raise self._damaged(f"a block can't be unpacked ({error})") from error
        self._unpacked += max(len(data), _METADATA)
        if self._unpacked > _MOST_UNPACKED:
            raise ImageError(
                f"looking into '{self._name}' takes unpacking more than {_MOST_UNPACKED >> 30} GiB: no usual image"
            )
        return data

    def _metadata_block(self, position: int) -> tuple[bytes, int]:
        """Return an unpacked block of a table, and where the next one begins."""
        if position in self._metadata:
            self._metadata.move_to_end(position)
            return self._metadata[position]
        (header,) = struct.unpack("<H", self._raw(position, 2))
        length = header & 0x7FFF
        if not 0 < length <= _METADATA:
            raise self._damaged(f"a block of a table claims {length} bytes")
        data = self._block(position + 2, length, is_packed=not header & 0x8000, most=_METADATA)
        if not data:
            raise self._damaged("a block of a table is empty")
        self._metadata[position] = data, position + 2 + length
        if len(self._metadata) > _CACHED_METADATA:
            self._metadata.popitem(last=False)
        return self._metadata[position]

    def _metadata_bytes(self, place: tuple[int, int], length: int) -> tuple[bytes, tuple[int, int]]:
        """Return bytes of a table that may go over several blocks, and the place behind them."""
        position, offset = place
        pieces = []
        while True:
            block, following = self._metadata_block(position)
            piece = block[offset : offset + length]
            pieces.append(piece)
            length -= len(piece)
            if not length:
                return b"".join(pieces), (position, offset + len(piece))
            if offset > len(block):
                raise self._damaged("a reference points into nothing")
            position, offset = following, 0

    def _fields(self, layout: struct.Struct, place: tuple[int, int]) -> tuple[tuple[int, ...], tuple[int, int]]:
        data, place = self._metadata_bytes(place, layout.size)
        return layout.unpack(data), place

    def _data_block(self, position: int, size: int) -> bytes:
        if position in self._data:
            self._data.move_to_end(position)
            return self._data[position]
        length = size & 0xFFFFFF
        if length > self.block_size:
            raise self._damaged(f"a block of a file claims {length} bytes")
        data = self._block(position, length, is_packed=not size & 0x1000000, most=self.block_size)
        self._data[position] = data
        if len(self._data) > _CACHED_DATA:
            self._data.popitem(last=False)
        return data

    def _fragment(self, number: int) -> bytes:
        if number >= self._fragments:
            raise self._damaged(f"there is no fragment {number}")
        per_block = _METADATA // _FRAGMENT.size
        (block,) = struct.unpack("<Q", self._raw(self._fragment_table + number // per_block * 8, 8))
        data, _ = self._metadata_bytes((block, number % per_block * _FRAGMENT.size), _FRAGMENT.size)
        position, size, _unused = _FRAGMENT.unpack(data)
        return self._data_block(position, size)
