"""Small shared libraries: ELF files with only the headers that name a library and what it needs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_SECTION = struct.Struct("<IIQQQQIIQQ")
_STRTAB, _DYNAMIC, _VERNEED = 3, 6, 0x6FFFFFFE
_NEEDED, _SONAME = 1, 14


def elf(
    soname: str = "", needed: Sequence[str] = (), versions: Mapping[str, Sequence[str]] | None = None, data: bytes = b""
) -> bytes:
    """Return a library; `versions` has the versions of symbols that it needs by library, `data` is its content."""
    strings = b"\0"

    def string(text: str) -> int:
        nonlocal strings
        start = len(strings)
        strings += text.encode() + b"\0"
        return start

    dynamic = [(_NEEDED, string(name)) for name in needed]
    dynamic += [(_SONAME, string(soname))] if soname else []
    tags = b"".join(struct.pack("<qQ", *tag) for tag in [*dynamic, (0, 0)])
    verneed, items = b"", list((versions or {}).items())
    for library, names in items:
        size = 16 + 16 * len(names)
        last_library = library == items[-1][0]
        verneed += struct.pack("<HHIII", 1, len(names), string(library), 16, 0 if last_library else size)
        for name in names:
            verneed += struct.pack("<IHHII", 0, 0, 2, string(name), 0 if name == names[-1] else 16)
    names_of_sections = b"\0.dynstr\0.dynamic\0.gnu.version_r\0.shstrtab\0"
    parts = [strings, tags, verneed, names_of_sections]
    starts = [64 + sum(map(len, parts[:index])) for index in range(len(parts) + 1)]
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, _STRTAB, 0, 0, starts[0], len(strings), 0, 0, 1, 0),
        (9, _DYNAMIC, 0, 0, starts[1], len(tags), 1, 0, 8, 16),
        (18, _VERNEED, 0, 0, starts[2], len(verneed), 1, len(items), 4, 0),
        (33, _STRTAB, 0, 0, starts[3], len(names_of_sections), 0, 0, 1, 0),
    ]
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, starts[4], 0, 64, 56, 0, 64, len(sections), 4
    )
    return head + b"".join(parts) + b"".join(_SECTION.pack(*one) for one in sections) + data


GLIBC = {"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.4", "GLIBC_PRIVATE"]}


def mpich(version: str = "4.0.2", soname: str = "libmpi.so.12") -> bytes:
    """Return MPICH, with its version as it lies in libraries of MPICH 4 and 5."""
    said = b"\0ch4:ucx\0--build=x86_64 --prefix=/usr\0gcc -O2\0\0-g\0" + version.encode() + b"\0"
    return elf(soname, ["libucp.so.0", "libc.so.6"], GLIBC, said)


def open_mpi(version: str = "4.1.4", soname: str = "libmpi.so.40") -> bytes:
    said = b"\0Open MPI v%s, package: Debian OpenMPI\0" % version.encode()
    return elf(soname, ["libopen-pal.so.40", "libc.so.6"], {"libc.so.6": ["GLIBC_2.17"]}, said)
