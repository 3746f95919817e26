"""Small trees that look like the root file systems of images, and SIFs around what mksquashfs makes of them."""

import struct
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Union

from tests.programs import write_file

DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
HEADER = struct.Struct("<32s10s3s3s16s8q")
DEFINITION, PARTITION, SIGNATURE = 0x4001, 0x4004, 0x4005

# An object of a SIF: type, extra, content, link.
SifObject = tuple[int, bytes, bytes, int]


def write(top: Path, path: str, text: str = "") -> Path:
    """Write a file of the tree; its folders are made."""
    return write_file(top / path.lstrip("/"), text)


def link(top: Path, path: str, target: Union[Path, str]) -> None:
    place = top / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def distribution(top: Path, folder: str, name: str, version: str) -> None:
    """Write the metadata of a Python package."""
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not this\n"
    write(top, f"{folder}/{name.replace('-', '_').lower()}-{version}.dist-info/METADATA", text)


def linux(top: Path) -> Path:
    """Make a root file system with a Python like Debian's."""
    write(top, "/usr/lib/os-release", 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    link(top, "/etc/os-release", "../usr/lib/os-release")
    link(top, "/bin", "usr/bin")
    link(top, "/lib", "/usr/lib")
    elf = b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", 183)
    write(top, "/usr/bin/dash").write_bytes(elf)
    link(top, "/usr/bin/sh", "dash")
    write(top, "/usr/lib/aarch64-linux-gnu/libc.so.6", "...GNU C Library (Debian GLIBC 2.36-9) stable version 2.36.\n")
    status = "Status: install ok installed\nArchitecture: arm64\n"
    write(
        top,
        "/var/lib/dpkg/status",
        f"Package: python3.11\n{status}Version: 3.11.2-6+deb12u6\n\n"
        f"Package: gone\nStatus: deinstall ok config-files\nVersion: 1.0\n\n"
        f"Package: mpich\n{status}Version: 1:4.0.2-3\n",
    )
    write(top, "/usr/bin/python3.11")
    link(top, "/usr/bin/python3", "python3.11")
    write(top, "/usr/lib/python3.11/os.py")
    distribution(top, "/usr/lib/python3/dist-packages", "demo-vendor", "1.2.3+site")
    distribution(top, "/usr/local/lib/python3.11/dist-packages", "Local.Package", "2.0")
    write(top, "/.singularity.d/labels.json", '{"name": "a tree", "number": 7}')
    write(top, "/.singularity.d/runscript", "#!/bin/sh\nexec python3\n")
    write(top, "/.singularity.d/env/90-environment.sh", "#!/bin/sh\nexport LANG=C.UTF-8\n")
    return top


def python_prefix(
    top: Path, prefix: str, *, config: str = "", conda: Iterable[str] = (), packages: Iterable[tuple[str, str]] = ()
) -> None:
    """Add a Python elsewhere: a virtual environment with `config`, of conda with `conda`."""
    link(top, f"{prefix}/bin/python3", "/usr/bin/python3.11" if config else "python3.11")
    write(top, f"{prefix}/bin/python3.11")
    (top / f"{prefix}/lib/python3.11/site-packages".lstrip("/")).mkdir(parents=True)
    if config:
        write(top, f"{prefix}/pyvenv.cfg", config)
    for name in conda:
        write(top, f"{prefix}/conda-meta/{name}.json", "{}")
    for name, version in packages:
        distribution(top, f"{prefix}/lib/python3.11/site-packages", name, version)


def squashfs(mksquashfs: str, top: Path, target: Path, *options: str) -> Path:
    """Pack a tree with the real tool."""
    command = [mksquashfs, str(top), str(target), "-quiet", "-no-progress", "-noappend", "-processors", "1", *options]
    subprocess.run(command, check=True, capture_output=True)
    return target


def partition(content: bytes, *, kind: int = 1, part: int = 2) -> SifObject:
    return PARTITION, struct.pack("<ii3s", kind, part, b"04\0"), content, 0


def signature(fingerprint: bytes, *, link: int = 0xF0000001) -> SifObject:
    return SIGNATURE, struct.pack("<i256s", 1, fingerprint), b"-----BEGIN PGP", link


def sif(target: Path, *objects: SifObject, total: int = 48, architecture: bytes = b"04\0") -> Path:
    """Write a SIF of objects."""
    start = HEADER.size
    position = data = start + total * DESCRIPTOR.size
    table, contents = b"", b""
    for number, (kind, extra, content, linked) in enumerate(objects, 1):
        place = (position, len(content), len(content), 1_700_000_000, 0, 0, 0)
        table += DESCRIPTOR.pack(kind, True, number, 0xF0000001, linked, *place, b"", extra)
        contents += content
        position += len(content)
    times = (1_700_000_000, 1_700_000_000)
    head = HEADER.pack(
        b"#!/usr/bin/env run-singularity\n",
        b"SIF_MAGIC\0",
        b"01\0",
        architecture,
        uuid.UUID(int=1).bytes,
        *times,
        total - len(objects),
        total,
        start,
        total * DESCRIPTOR.size,
        data,
        len(contents),
    )
    target.write_bytes(head + table.ljust(total * DESCRIPTOR.size, b"\0") + contents)
    return target


def one_listing(target: Path, *, directories: int, names: int, entries: int = 256) -> Path:
    """Write a SquashFS that mksquashfs would not: all directories below its root have one listing, of FIFOs.

    Args:
        target: the file to write.
        directories: how many there are besides `usr`.
        names: how many each of them has.
        entries: of the listing below each header; more than 256 are not allowed.
    """
    places = [struct.pack("<4H2I I", 6, 0o644, 0, 0, 0, 1, 1)]  # the FIFO that every name stands for
    listing = _listing([(f"m{number:05}", 6, (0, 0)) for number in range(names)], entries=entries)
    children = []
    for name in ["usr", *(f"d{number:05}" for number in range(directories))]:
        children.append((name, 1, _place(sum(map(len, places)))))
        places.append(_directory(len(listing), (0, 0)))
    root = _place(sum(map(len, places)))
    below_root = _listing(children)
    places.append(_directory(len(below_root), _place(len(listing))))
    inodes, listings = _metadata(b"".join(places)), _metadata(listing + below_root)
    size = 96 + len(inodes) + len(listings)
    numbers = (len(places), 0, 131072, 0, 1, 17, 0, 0, 4, 0, root[0] << 16 | root[1], size)
    tables = (size, 2**64 - 1, 96, 96 + len(inodes), 2**64 - 1, 2**64 - 1)
    target.write_bytes(struct.pack("<4s4I6H8Q", b"hsqs", *numbers, *tables) + inodes + listings)
    return target


def _metadata(data: bytes) -> bytes:
    """Return blocks of a table, not compressed."""
    pieces = (data[start : start + 8192] for start in range(0, len(data), 8192))
    return b"".join(struct.pack("<H", 0x8000 | len(piece)) + piece for piece in pieces)


def _place(position: int) -> tuple[int, int]:
    """Return the block of a table, as it lies there, and the offset in it."""
    return position // 8192 * 8194, position % 8192


def _directory(size: int, place: tuple[int, int]) -> bytes:
    return struct.pack("<4H2I 4I2HI", 8, 0o755, 0, 0, 0, 1, 2, size + 3, place[0], 1, 0, place[1], 2**32 - 1)


def _listing(children: list[tuple[str, int, tuple[int, int]]], *, entries: int = 256) -> bytes:
    """Return a listing of (name, type, place of the inode); the places below one header are in one block."""
    data = b""
    for block in sorted({place[0] for _, _, place in children}):
        there = [one for one in children if one[2][0] == block]
        for start in range(0, len(there), entries):
            part = there[start : start + entries]
            data += struct.pack("<3I", len(part) - 1, block, 1)
            data += b"".join(
                struct.pack("<2HHH", place[1], 0, kind, len(name) - 1) + name.encode() for name, kind, place in part
            )
    return data
