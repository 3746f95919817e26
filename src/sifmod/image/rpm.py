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
_MOST_VALUES = 2_000_000  # file names, capabilities and the like; a system of 2,000 packages has a fifth of it
_MOST_CHARACTERS = 256 << 20  # of the paths of files, which are put together from folders and names
_MOST_SECONDS = 20
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
# Numbers of rpmtag.h, and the types of a value (rpm-format(5), "Header Structure").
_NAME, _VERSION, _SUMMARY, _URL, _BASENAMES, _DIRECTORIES, _DIRECTORY_OF = 1000, 1001, 1004, 1020, 1117, 1118, 1116
_REQUIRES, _PROVIDES, _TRANSACTION = 1049, 1047, 1128
_INT32, _STRING, _STRINGS, _TEXTS = 4, 6, 8, 9

Value = Union[int, str]


class _TooMuchError(Exception):
    """A database exceeds a limit."""


@dataclass
class _Allowance:
    """What may still be read from one database."""

    values: int = _MOST_VALUES
    characters: int = _MOST_CHARACTERS

    def take(self, *, values: int = 0, characters: int = 0) -> None:
        """Take a part of it, before memory is used for it."""
        self.values -= values
        self.characters -= characters
        if self.values < 0:
            raise _TooMuchError(f"its packages have more than {_MOST_VALUES:,} files and capabilities")
        if self.characters < 0:
            raise _TooMuchError(f"the paths of its files have more than {_MOST_CHARACTERS >> 20} MiB")


@dataclass(frozen=True)
class RpmPackage:
    """One installed package; those that were installed together have the same number of a `transaction`."""

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
        file_names = files.names(folder)
        if _DATABASE in file_names:
            path = f"{folder}/{_DATABASE}"
            if files.size(path) > _MOST_BYTES:
                return (), f"the database of RPM in '{path}' is larger than {_MOST_BYTES >> 20} MiB"
            try:
                return tuple(_packages(files.read(path, limit=_MOST_BYTES))), ""
            except (sqlite3.Error, ValueError, OSError, _TooMuchError) as error:
                return (), f"the database of RPM in '{path}' can't be read: {error}"
        for name, kind in _UNREADABLE.items():
            if name in file_names:
                return (), f"the database of RPM is in the format {kind}, which only RPM reads"
    return (), ""


def _packages(content: bytes) -> Iterator[RpmPackage]:
    end = time.monotonic() + _MOST_SECONDS
    allowance = _Allowance()
    with tempfile.NamedTemporaryFile(prefix="sifmod-") as copy:
        Path(copy.name).write_bytes(content)
        address = f"{Path(copy.name).as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            # a database can hold views and triggers that run for ever
            database.execute("PRAGMA trusted_schema = OFF")
            database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            # virtual tables have no page, and the clock does not interrupt the functions that compute a column
            if not database.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'Packages' AND rootpage > 0"
            ).fetchall():
                raise ValueError("it has no table of packages")
            if any(is_computed for *_, is_computed in database.execute("PRAGMA table_xinfo(Packages)")):
                raise ValueError("its table of packages has computed columns")
            rows = database.execute(
                "SELECT blob FROM Packages WHERE typeof(blob) = 'blob' AND length(blob) < ? LIMIT ?",
                (_MOST_HEADER, _MOST_PACKAGES),
            )
            for (blob,) in rows:
                if time.monotonic() > end:
                    raise _TooMuchError(f"that takes more than {_MOST_SECONDS} seconds")
                with contextlib.suppress(struct.error, ValueError, IndexError):
                    yield _package(_header(blob, allowance), allowance)


def _header(blob: bytes, allowance: _Allowance) -> dict[int, list[Value]]:
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
    tags: dict[int, list[Value]] = {}
    for tag, kind, offset, count in struct.iter_unpack(">IIII", blob[8:begin]):
        if tag not in wanted or count > length:
            continue
        wanted.remove(tag)  # a header has each tag once
        allowance.take(values=count)
        if kind == _INT32:
            tags[tag] = list(struct.unpack_from(f">{count}I", data, offset))
        elif kind in (_STRING, _STRINGS, _TEXTS):
            texts = data[offset:].split(b"\0", count if kind == _STRINGS else 1)
            tags[tag] = [one.decode("utf-8", "replace") for one in texts[: count if kind == _STRINGS else 1]]
    return tags


def _package(header: dict[int, list[Value]], allowance: _Allowance) -> RpmPackage:
    def text(tag: int) -> str:
        return str(header.get(tag, [""])[0])

    folders = header.get(_DIRECTORIES, [])
    files = []
    for index, name in zip(header.get(_DIRECTORY_OF, []), header.get(_BASENAMES, [])):
        folder = str(folders[int(index)])
        allowance.take(characters=len(folder) + len(str(name)))
        files.append(f"{folder}{name}")
    return RpmPackage(
        name=text(_NAME),
        version=text(_VERSION),
        summary=text(_SUMMARY),
        homepage=text(_URL),
        files=tuple(files),
        requires=frozenset(map(str, header.get(_REQUIRES, []))),
        provides=frozenset(map(str, header.get(_PROVIDES, []))),
        transaction=int(header.get(_TRANSACTION, [0])[0]),
    )
