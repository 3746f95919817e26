"""The Singularity Image Format, version 01: header, descriptors, and the objects that they describe.

The layout is that of the format's Go library (github.com/sylabs/sif, pkg/sif). Offsets and counts in the file are not
trusted: each is checked against the size of the file.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Optional

from sifmod.errors import ImageError, os_errors
from sifmod.image import superblock

# launch script, magic, version, architecture; then UUID, times, and the positions of descriptors and data
_START = struct.Struct("<32s10s3s3s")
# the identifier that the builder of an image draws: a UUID
ID_AT, ID_LENGTH = _START.size, 16
_HEADER = struct.Struct(f"{_START.format}{ID_LENGTH}s8q")
_MAGIC = b"SIF_MAGIC\0"
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_PARTITION = struct.Struct("<ii3s")
_SIGNATURE = struct.Struct("<i256s")
_MOST_DESCRIPTORS = 4096  # the format's library makes 48
_GROUP_MASK = 0xF0000000

DEFINITION, PARTITION, SIGNATURE = 0x4001, 0x4004, 0x4005
SQUASHFS = 1
FILE_SYSTEMS = {1: "squashfs", 2: "ext3", 3: "archive", 4: "raw", 5: "encrypted squashfs", 6: "gocryptfs"}
_PRIMARY = 2
_HASHES = {1: "sha256", 2: "sha384", 3: "sha512", 4: "blake2s", 5: "blake2b"}
# Named as by the runtimes.
_ARCHITECTURES = {
    b"01": "386",
    b"02": "amd64",
    b"03": "arm",
    b"04": "arm64",
    b"05": "ppc64",
    b"06": "ppc64le",
    b"07": "mips",
    b"08": "mipsle",
    b"09": "mips64",
    b"10": "mips64le",
    b"11": "s390x",
    b"12": "riscv64",
}


@dataclass(frozen=True)
class Descriptor:
    """One object of a SIF."""

    kind: int  # type of the object, such as `PARTITION`
    number: int  # its identifier
    group: int  # identifier of its group
    link: int  # identifier of the object or group that it belongs to; 0 if there is none
    links_group: bool  # whether `link` identifies a group
    offset: int  # start of the object, in bytes
    size: int  # size of the object, in bytes
    created: int  # time of creation, in seconds since 1970
    extra: bytes  # data that depends on the type


@dataclass(frozen=True)
class Signature:
    """A signature of an object or a group, not verified: anyone can write one. Without a key it has no fingerprint."""

    fingerprint: str
    hash: str
    signs: str
    created: int


@dataclass(frozen=True)
class SifFile:
    """The contents of a SIF. An architecture whose number is not in the format is `unknown`; times are since 1970."""

    architecture: str
    created: int
    descriptors: tuple[Descriptor, ...]

    @property
    def system(self) -> Optional[Descriptor]:
        """The partition with the root file system; None if there is none."""
        for descriptor in self.descriptors:
            if descriptor.kind == PARTITION and _PARTITION.unpack_from(descriptor.extra)[1] == _PRIMARY:
                return descriptor
        return None

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures, in the order of the file."""
        return tuple(_signature(one) for one in self.descriptors if one.kind == SIGNATURE)


def file_system(partition: Descriptor) -> int:
    """Return the number of a partition's file system: a key of `FILE_SYSTEMS`, or another one."""
    return int(_PARTITION.unpack_from(partition.extra)[0])


def _signature(descriptor: Descriptor) -> Signature:
    number, entity = _SIGNATURE.unpack_from(descriptor.extra)
    fingerprint = entity[:20]
    what = "group" if descriptor.links_group else "object"
    return Signature(
        fingerprint=fingerprint.hex().upper() if any(fingerprint) else "",
        hash=_HASHES.get(number, "unknown"),
        signs=f"{what} {descriptor.link}",
        created=descriptor.created,
    )


def read_sif(stream: IO[bytes], *, name: str) -> SifFile:
    """Return the contents of a SIF."""

    def damaged(how: str) -> ImageError:
        return ImageError(f"the SIF '{name}' is damaged: {how}. Fetch or build the image again")

    size = os.fstat(stream.fileno()).st_size
    head = os.pread(stream.fileno(), _HEADER.size, 0)
    if len(head) < _HEADER.size:
        raise damaged(f"it ends after {size} bytes, inside its header")
    _launch, _magic, version, architecture, _uuid, created, _changed, free, total, start, length, _, _ = _HEADER.unpack(
        head
    )
    if version != b"01\0":
        raise ImageError(f"'{name}' is a SIF of version {version.rstrip(bytes(1))!r}: only version 01 can be read")
    if not 0 <= free <= total <= _MOST_DESCRIPTORS:
        raise damaged(f"it claims {total} descriptors, {free} of them free")
    if length < total * _DESCRIPTOR.size or start < _HEADER.size or start + length > size:
        raise damaged(f"its header places {length} bytes of descriptors at byte {start}, but the file has {size} bytes")
    table = os.pread(stream.fileno(), total * _DESCRIPTOR.size, start)
    if len(table) != total * _DESCRIPTOR.size:
        raise damaged("its descriptors are truncated")
    descriptors = []
    for number in range(total):
        kind, used, identifier, group, link, offset, extent, _padded, made, _, _, _, _name, extra = (
            _DESCRIPTOR.unpack_from(table, number * _DESCRIPTOR.size)
        )
        if not used:
            continue
        if offset < 0 or extent < 0 or offset + extent > size:
            raise damaged(f"object {identifier} should end at byte {offset + extent}, but the file has {size} bytes")
        group, target = group & ~_GROUP_MASK, link & ~_GROUP_MASK
        descriptors.append(Descriptor(kind, identifier, group, target, link != target, offset, extent, made, extra))
    known = _ARCHITECTURES.get(architecture.rstrip(b"\0"), "unknown")
    return SifFile(architecture=known, created=created, descriptors=tuple(descriptors))


def sif_id(path: Path) -> str:
    """Return the identifier in the header of a SIF, in hexadecimal, of which each build has its own, or an OSError."""
    # opening a FIFO would wait for a writer; it can't be read at a position
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, ID_LENGTH, ID_AT).hex()
    finally:
        os.close(descriptor)


def squashfs_partition(path: Path, *, user: str) -> Descriptor:
    """Return the partition of a SIF with its root file system: written as a file, runtimes start it that know no SIFs.

    Raises:
        ImageError: the file can't be read or is not a SIF, or its root file system is no whole SquashFS; the message
            says what it is instead.
    """

    def unfit(what: str) -> ImageError:
        return ImageError(
            f"the image '{path}' has no SquashFS partition, which {user} needs ({what}): build the image again, or "
            f"take {user} out of 'runtimes' in the site file"
        )

    check_is_sif(path)
    with os_errors(ImageError, f"the image '{path}' can't be read"), path.open("rb") as stream:
        partition = read_sif(stream, name=str(path)).system
        if partition is None:
            raise unfit("it has no root file system")
        if file_system(partition) != SQUASHFS:
            kind = FILE_SYSTEMS.get(file_system(partition), "unknown")
            raise unfit(f"the file system of its root is {kind}")
        head = os.pread(stream.fileno(), superblock.SIZE, partition.offset)
    if not head.startswith(superblock.MAGIC):
        raise unfit("what it names as SquashFS does not begin as one")
    length = int.from_bytes(head[superblock.LENGTH_AT : superblock.LENGTH_AT + 8], "little")
    if not superblock.SIZE <= length <= partition.size:
        raise unfit(f"its SquashFS has {length} bytes, in a partition of {partition.size}")
    return partition


def check_is_sif(path: Path) -> None:
    """Check that a file starts with the header of a SIF; else ImageError says what it is."""
    if not path.is_file():
        raise ImageError(f"'{path}' is not a file: use the path of a SIF")
    with os_errors(ImageError, f"the image '{path}' can't be read"), path.open("rb") as stream:
        head = stream.read(_START.size)
    if len(head) == _START.size and _START.unpack(head)[1] == _MAGIC:
        return
    if not head:
        what = "an empty file"
    elif head.startswith((superblock.MAGIC, b"\x1f\x8b", b"\xfd7zXZ", b"BZh")) or head[:5] in (b"<!DOC", b"<html"):
        what = {superblock.MAGIC: "a bare SquashFS file", b"<!DO": "a web page", b"<htm": "a web page"}.get(
            head[:4], "a compressed archive"
        )
    else:
        what = f"a file that begins with {head[:8]!r}"
    raise ImageError(f"'{path}' is not a SIF but {what}: fetch or build the image again")
