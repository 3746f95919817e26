"""The packages in a database of RPM, read from SQLite: RPM 4.16 and later, as in Enterprise Linux 9 and Fedora 33.

Earlier versions have Berkeley DB (`Packages`), and SUSE has `ndb` (`Packages.db`). Python's library reads neither.
"""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from sifmod.image.files import ImageFiles

Files = ImageFiles[Any]

_FOLDERS = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_DATABASE = "rpmdb.sqlite"
_UNREADABLE = {"Packages": "Berkeley DB", "Packages.db": "ndb"}
_MOST_BYTES = 512 << 20
_MOST_HEADER = 16 << 20
_MOST_PACKAGES = 20_000
_MOST_SECONDS = 20
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
# Numbers of rpmtag.h, and the types of a value (rpm-format(5), "Header Structure").
_NAME, _VERSION, _SUMMARY, _URL, _BASENAMES, _DIRECTORIES, _DIRECTORY_OF = 1000, 1001, 1004, 1020, 1117, 1118, 1116
_REQUIRES, _PROVIDES, _TRANSACTION = 1049, 1047, 1128
_INT32, _STRING, _STRINGS, _TEXTS = 4, 6, 8, 9

Value = Union[int, str]


@dataclass(frozen=True)
class RpmPackage:
    """One installed package.

    Attributes:
        name: its name.
        version: its version, without the release.
        summary: a line on what it is.
        homepage: its address.
        files: paths of its files.
        requires: what it needs: names of packages, files and other capabilities.
        provides: the capabilities that it has.
        transaction: when it was installed: packages that were installed together have the same number.
    """

    name: str
    version: str
    summary: str
    homepage: str
    files: tuple[str, ...]
    requires: frozenset[str]
    provides: frozenset[str]
    transaction: int


def rpm_packages(files: Files) -> tuple[tuple[RpmPackage, ...], str]:
    """Return the packages of an image, and why they can't be read; both empty if the image has no database of RPM."""
    for folder in _FOLDERS:
        there = files.names(folder)
        if _DATABASE in there:
            path = f"{folder}/{_DATABASE}"
            if files.size(path) > _MOST_BYTES:
                return (), f"the database of RPM in '{path}' is larger than {_MOST_BYTES >> 20} MiB"
            try:
                return tuple(_packages(files.read(path, limit=_MOST_BYTES))), ""
            except (sqlite3.Error, ValueError, OSError) as error:
                return (), f"the database of RPM in '{path}' can't be read: {error}"
        for name, kind in _UNREADABLE.items():
            if name in there:
                return (), f"the database of RPM is in the format {kind}, which only RPM reads"
    return (), ""


def _packages(content: bytes) -> Iterator[RpmPackage]:
    end = time.monotonic() + _MOST_SECONDS
    with tempfile.NamedTemporaryFile(prefix="sifmod-") as copy:
        Path(copy.name).write_bytes(content)
        address = f"{Path(copy.name).as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            # a database can hold views and triggers that run for ever
            database.execute("PRAGMA trusted_schema = OFF")
            database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            if not database.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'Packages'"
            ).fetchall():
                raise ValueError("it has no table of packages")
            rows = database.execute(
                "SELECT blob FROM Packages WHERE typeof(blob) = 'blob' AND length(blob) < ? LIMIT ?",
                (_MOST_HEADER, _MOST_PACKAGES),
            )
            for (blob,) in rows:
                if time.monotonic() > end:  # spent on headers, while the database waits
                    raise ValueError(f"it takes more than {_MOST_SECONDS} seconds")
                with contextlib.suppress(struct.error, ValueError, IndexError):
                    yield _package(_header(blob))


def _header(blob: bytes) -> dict[int, list[Value]]:
    """Return the values of a header by tag: a table of entries, and the bytes that they point into."""
    entries, length = struct.unpack_from(">II", blob)
    begin = 8 + 16 * entries
    if begin + length > len(blob):
        raise ValueError("the header is cut off")
    data = blob[begin : begin + length]
    wanted = {
        _NAME,
        _VERSION,
        _SUMMARY,
        _URL,
        _BASENAMES,
        _DIRECTORIES,
        _DIRECTORY_OF,
        _REQUIRES,
        _PROVIDES,
        _TRANSACTION,
    }
    found: dict[int, list[Value]] = {}
    for tag, kind, offset, count in struct.iter_unpack(">IIII", blob[8:begin]):
        if tag not in wanted or tag in found or count > length:
            continue
        if kind == _INT32:
            found[tag] = list(struct.unpack_from(f">{count}I", data, offset))
        elif kind in (_STRING, _STRINGS, _TEXTS):
            texts = data[offset:].split(b"\0", count if kind == _STRINGS else 1)
            found[tag] = [one.decode("utf-8", "replace") for one in texts[: count if kind == _STRINGS else 1]]
    return found


def _package(header: dict[int, list[Value]]) -> RpmPackage:
    def text(tag: int) -> str:
        return str(header.get(tag, [""])[0])

    folders = header.get(_DIRECTORIES, [])
    places = zip(header.get(_DIRECTORY_OF, []), header.get(_BASENAMES, []))
    return RpmPackage(
        name=text(_NAME),
        version=text(_VERSION),
        summary=text(_SUMMARY),
        homepage=text(_URL),
        files=tuple(f"{folders[int(index)]}{name}" for index, name in places),
        requires=frozenset(map(str, header.get(_REQUIRES, []))),
        provides=frozenset(map(str, header.get(_PROVIDES, []))),
        transaction=int(header.get(_TRANSACTION, [0])[0]),
    )
