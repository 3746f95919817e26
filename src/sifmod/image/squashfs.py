"""SquashFS 4.0, read without mounting it: PySquashfsImage, but lazy and within limits.

The layout is that of the kernel's fs/squashfs/squashfs_fs.h. PySquashfsImage reads the whole tree when it opens a file,
and trusts the file (docs/adr/0007). Here only the requested blocks are read, and a damaged or hostile file ends in an
ImageError, in bounded time and memory: every position is checked, every block is decompressed into a buffer of its
maximum size, and one reader decompresses a limited number of bytes and reads a limited number of names.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict, defaultdict
from ctypes import sizeof
from dataclasses import dataclass, field
from typing import IO, Any

from PySquashfsImage import SquashFsImage
from PySquashfsImage.const import SQUASHFS_INVALID_FRAG, SQUASHFS_METADATA_SIZE, SQUASHFS_NAME_LEN, Type
from PySquashfsImage.macro import (
    SQUASHFS_COMPRESSED,
    SQUASHFS_COMPRESSED_BLOCK,
    SQUASHFS_COMPRESSED_SIZE,
    SQUASHFS_COMPRESSED_SIZE_BLOCK,
    SQUASHFS_FRAGMENT_INDEX,
    SQUASHFS_FRAGMENT_INDEX_OFFSET,
    SQUASHFS_INODE_BLK,
    SQUASHFS_INODE_OFFSET,
)
from PySquashfsImage.structure import DirEntry, DirHeader, FragmentEntry, Superblock

from sifmod.errors import ImageError
from sifmod.image import superblock
from sifmod.image.decompress import COMPRESSORS, DamagedBlockError, decompress

DIRECTORY, FILE, LINK, OTHER = "directory", "file", "link", "other"
_KINDS = {
    Type.DIR: DIRECTORY,
    Type.LDIR: DIRECTORY,
    Type.FILE: FILE,
    Type.LREG: FILE,
    Type.SYMLINK: LINK,
    Type.LSYMLINK: LINK,
}

# In all directories that are read from one image; conda with 40 environments of 400 packages has 107,000.
MOST_NAMES = 500_000
_MOST_UNPACKED = 2 << 30  # bytes that one reader decompresses; an image with 500 packages needs about a tenth of it
_MOST_BLOCKS = 1 << 22  # in one file: 512 GiB at the usual block size
_MOST_LISTING = 16 << 20  # bytes of one directory: about half a million names
_MOST_LINK = 65_536  # bytes of a link's target, as in the kernel
_MOST_ENTRIES = 256  # after one header of a listing: the kernel's SQUASHFS_DIR_COUNT
_CACHED_METADATA = 2048  # blocks of inodes, and the same number of blocks of listings
_CACHED_DATA = 16  # blocks


@dataclass(frozen=True)
class Inode:
    """One file, directory or link."""

    kind: str  # `directory`, `file`, `link` or `other`
    size: int  # size in bytes; for a directory, the size of its listing
    structure: Any = field(repr=False)  # PySquashfsImage's inode, with the positions of the content


def takes_too_much(name: str, what: str) -> ImageError:
    """Return the error for an image that exceeds a limit."""
    return ImageError(f"reading '{name}' needs {what}, far more than usual images. Check where the image comes from")


class SquashFs(SquashFsImage):  # type: ignore[misc]  # PySquashfsImage has no types
    """A SquashFS within a file.

    Methods of PySquashfsImage that need the whole tree (iteration, `find`, `select`) don't work: nothing is read ahead.

    Attributes:
        name: path of the file, for messages.
        compression: name of its compressor, such as `zstd`.
        block_size: size of its data blocks, in bytes.
        inodes: number of files, directories and links, from the superblock.
        created: time of creation, in seconds since 1970.
        size: size in bytes, without padding.
        root: reference of the root directory.
    """

    def __init__(self, stream: IO[bytes], *, name: str, offset: int = 0, size: int) -> None:
        """Read the superblock."""
        self.name = name
        self._limit = size
        self._unpacked = 0
        self._names = 0
        self._data: OrderedDict[int, bytes] = OrderedDict()
        super().__init__(stream, offset, closefd=False)

    def _initialize(self) -> None:
        """Read the superblock, but not the tables that PySquashfsImage reads here."""
        if self._limit < superblock.SIZE:
            raise ImageError(
                f"'{self.name}' does not contain a SquashFS: it has only {self._limit} bytes. Fetch or build it again"
            )
        head = self._raw(0, superblock.SIZE)
        magic = head[: len(superblock.MAGIC)]
        if magic != superblock.MAGIC:
            raise ImageError(
                f"'{self.name}' does not contain a SquashFS: it begins with {magic!r}. Fetch or build it again"
            )
        known = self._sblk = Superblock.from_bytes(head)
        if (known.s_major, known.s_minor) != (4, 0):
            raise ImageError(
                f"'{self.name}' is a SquashFS of version {known.s_major}.{known.s_minor}: only 4.0 can be read"
            )
        if known.compression not in COMPRESSORS:
            raise self._damaged(f"its compressor {known.compression} is unknown")
        if not 12 <= known.block_log <= 20 or known.block_size != 1 << known.block_log:
            raise self._damaged(f"its block size is {known.block_size}")
        if known.bytes_used > self._limit:
            raise self._damaged(f"it should have {known.bytes_used} bytes, but has only {self._limit}")
        if not superblock.SIZE <= known.inode_table_start < known.directory_table_start <= known.bytes_used:
            raise self._damaged("its tables are out of order")
        self.compression: str = COMPRESSORS[known.compression]
        self.block_size: int = known.block_size
        self.inodes: int = known.inodes
        self.created: int = known.mkfs_time
        self._id_table: dict[int, int] = defaultdict(int)  # owners are not needed, so that their table is not read

    @property
    def root(self) -> int:
        """Reference of the root directory."""
        return int(self._sblk.root_inode)

    def inode(self, reference: int) -> Inode:
        """Return the inode for a reference from `root` or `listing`."""
        try:
            raw = self._read_inode(SQUASHFS_INODE_BLK(reference), SQUASHFS_INODE_OFFSET(reference))
        except KeyError as error:
            raise self._damaged(f"an inode has the unknown type {error}") from error
        kind = _KINDS.get(raw.type, OTHER)
        # the size of a listing includes three bytes for `.` and `..`, which it does not contain
        sizes = {DIRECTORY: max(raw.data - 3, 0), OTHER: 0}
        return Inode(kind, sizes.get(kind, raw.data), raw)

    def listing(self, inode: Inode) -> dict[str, tuple[str, int]]:
        """Return kind and reference of each entry of a directory, by name."""
        if inode.size > _MOST_LISTING:
            raise self._damaged(f"a directory claims a listing of {inode.size} bytes")
        start = self._sblk.directory_table_start + inode.structure.start
        data = self._read_directory_data(start, inode.structure.offset, inode.size)[0] if inode.size else b""
        found: dict[str, tuple[str, int]] = {}
        position = 0
        self._count_names(1)  # reading an empty listing takes time too
        try:
            while position < len(data):
                header = DirHeader.from_bytes(data, position)
                position += sizeof(DirHeader)
                entries, block = header.count + 1, header.start_block << 16
                if entries > _MOST_ENTRIES:
                    raise self._damaged(f"a part of a directory claims {entries} entries")
                self._count_names(entries)
                for _ in range(entries):
                    entry = DirEntry.from_bytes(data, position)
                    begin = position + sizeof(DirEntry)
                    position = begin + entry.size + 1
                    name = data[begin:position]
                    if len(name) != entry.size + 1 or len(name) > SQUASHFS_NAME_LEN:
                        raise self._damaged(f"a name in a directory claims {entry.size + 1} bytes")
                    if b"/" in name or b"\0" in name or name in (b".", b".."):
                        raise self._damaged(f"a directory has an entry named {name!r}")
                    found[os.fsdecode(name)] = _KINDS.get(entry.type, OTHER), block | entry.offset
        except ValueError as error:  # a structure is truncated, or its type unknown
            raise self._damaged(f"a directory can't be read ({error})") from error
        return found

    def _count_names(self, count: int) -> None:
        self._names += count
        if self._names > MOST_NAMES:
            raise takes_too_much(self.name, f"reading more than {MOST_NAMES:,} file names")

    def target(self, inode: Inode) -> str:
        """Return the target of a link."""
        return os.fsdecode(inode.structure._symlink)  # `symlink` assumes UTF-8

    def read(self, inode: Inode, *, limit: int, start: int = 0) -> bytes:
        """Return the content of a file from a byte on, at most so many bytes; only the blocks of this part are read."""
        end = min(inode.size, start + limit)
        if start >= end:
            return b""
        known = inode.structure
        first, last = start // self.block_size, -(-end // self.block_size)
        wanted = min(last, known.blocks)
        if wanted > _MOST_BLOCKS:
            raise self._damaged(f"a file claims {inode.size} bytes")
        pieces = []
        position = known.start
        for number, size in enumerate(self._block_sizes(known, wanted)):
            if number >= first:
                length = min(self.block_size, inode.size - number * self.block_size)
                block = self._read_data_block(position, size) if size else bytes(length)
                if len(block) != length:
                    raise self._damaged("a block of a file has the wrong length")
                pieces.append(block)
            position += SQUASHFS_COMPRESSED_SIZE_BLOCK(size)
        if last > known.blocks and known.fragment != SQUASHFS_INVALID_FRAG:
            block = self._read_data_block(*self._read_fragment(known.fragment))
            piece = block[known.offset : known.offset + known.frag_bytes]
            if len(piece) != known.frag_bytes:
                raise self._damaged("the end of a file is missing")
            pieces.append(piece)
        return b"".join(pieces)[start - first * self.block_size :][: end - start]

    def _block_sizes(self, inode: Any, count: int) -> tuple[int, ...]:
        """Return the compressed sizes of the first blocks of a file; 0 for a block of zeros."""
        if not count:
            return ()
        place = inode.block_start, inode.block_offset
        return struct.unpack(f"<{count}I", self._read_metadata(self._inode_table_hash, *place, count * 4)[0])

    def _damaged(self, how: str) -> ImageError:
        return ImageError(f"the SquashFS in '{self.name}' is damaged: {how}. Fetch or build it again")

    def _raw(self, position: int, length: int) -> bytes:
        """Return bytes of the file system as stored in the file."""
        if position < 0 or position + length > self._limit:
            raise self._damaged(f"{length} bytes at {position} are beyond its end")
        try:
            data = os.pread(self._fd.fileno(), length, self._offset + position)
        except OSError as error:
            raise ImageError(f"'{self.name}' can't be read: {error.strerror}") from error
        if len(data) != length:
            raise self._damaged("the file is truncated")
        return data

    def _block(self, position: int, length: int, *, is_packed: bool, most: int) -> bytes:
        """Return a block of the file system, decompressed."""
        data = self._raw(position, length)
        if is_packed:
            try:
                data = decompress(self.compression, data, most)
            except DamagedBlockError as error:
                raise self._damaged(f"a block can't be decompressed ({error})") from error
        self._unpacked += max(len(data), SQUASHFS_METADATA_SIZE)
        if self._unpacked > _MOST_UNPACKED:
            raise takes_too_much(self.name, f"decompressing more than {_MOST_UNPACKED >> 30} GiB")
        return data

    # PySquashfsImage's own methods read through these, and its versions trust every length and position.

    def _read_block(self, start: int, expected: int = SQUASHFS_METADATA_SIZE) -> tuple[bytes, int]:
        """Return a decompressed block of a table, and the position of the next one."""
        (header,) = struct.unpack("<H", self._raw(start, 2))
        length = SQUASHFS_COMPRESSED_SIZE(header)
        if length > SQUASHFS_METADATA_SIZE:
            raise self._damaged(f"a block of a table claims {length} bytes")
        data = self._block(start + 2, length, is_packed=SQUASHFS_COMPRESSED(header), most=expected)
        if not data:
            raise self._damaged("a block of a table is empty")
        return data, start + 2 + length

    def _read_metadata(
        self, hash_table: dict[int, Any], block: int, offset: int, length: int
    ) -> tuple[bytes, int, int]:
        """Return bytes of a table, from several blocks if needed, and block and offset of the byte after them."""
        pieces = []
        while True:
            if len(hash_table) >= _CACHED_METADATA and block not in hash_table:
                hash_table.clear()
            entry = self._get_metadata(hash_table, block)
            if offset > len(entry["buffer"]):
                raise self._damaged("a reference points beyond the end of its block")
            piece = entry["buffer"][offset : offset + length]
            pieces.append(piece)
            length -= len(piece)
            if not length:
                return b"".join(pieces), block, offset + len(piece)
            block, offset = entry["next_index"], 0

    def _read_inode_data(self, block: int, offset: int, length: int) -> tuple[bytes, int, int]:
        # the only length that comes from the file is that of a link's target
        if length > _MOST_LINK:
            raise self._damaged(f"a link claims a target of {length} bytes")
        return self._read_metadata(self._inode_table_hash, block, offset, length)

    def _read_data_block(self, start: int, size: int) -> bytes:
        if start in self._data:
            self._data.move_to_end(start)
            return self._data[start]
        length = SQUASHFS_COMPRESSED_SIZE_BLOCK(size)
        if length > self.block_size:
            raise self._damaged(f"a block of a file claims {length} bytes")
        data = self._block(start, length, is_packed=SQUASHFS_COMPRESSED_BLOCK(size), most=self.block_size)
        self._data[start] = data
        if len(self._data) > _CACHED_DATA:
            self._data.popitem(last=False)
        return data

    def _read_fragment(self, fragment: int) -> tuple[int, int]:
        """Return position and size of the block of a fragment, reading only its entry of the table."""
        if fragment >= self._sblk.fragments:
            raise self._damaged(f"there is no fragment {fragment}")
        index = self._sblk.fragment_table_start + SQUASHFS_FRAGMENT_INDEX(fragment) * 8
        (block,) = struct.unpack("<Q", self._raw(index, 8))
        offset = SQUASHFS_FRAGMENT_INDEX_OFFSET(fragment)
        data, _, _ = self._read_metadata(self._inode_table_hash, block, offset, sizeof(FragmentEntry))
        entry = FragmentEntry.from_bytes(data)
        return entry.start_block, entry.size
