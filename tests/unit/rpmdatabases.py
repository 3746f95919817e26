"""Databases of RPM, as the tests make them."""

import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path

from .imagetrees import write


def rpm_header(
    *,
    transaction: int,
    name: str,
    files: Sequence[str],
    requires: Sequence[str] = (),
) -> bytes:
    """Return a header of RPM: entries of tag, type, offset and count, then the values."""
    folders = sorted({f"{Path(path).parent}/" for path in files})
    values: list[tuple[int, int, int, bytes]] = [
        (1000, 6, 1, name.encode() + b"\0"),
        (1001, 6, 1, b"2.1\0"),
        (1002, 6, 1, b"4.el9\0"),
        (1004, 9, 1, b"a summary\0"),
        (1022, 6, 1, b"x86_64\0"),
        (1047, 8, 1, name.encode() + b"\0"),
        (1049, 8, len(requires), b"".join(one.encode() + b"\0" for one in requires)),
        (1116, 4, len(files), b"".join(struct.pack(">I", folders.index(f"{Path(one).parent}/")) for one in files)),
        (1117, 8, len(files), b"".join(Path(one).name.encode() + b"\0" for one in files)),
        (1118, 8, len(folders), b"".join(one.encode() + b"\0" for one in folders)),
        (1128, 4, 1, struct.pack(">I", transaction)),
        (5000, 99, 1 << 31, b""),
    ]
    table, data = b"", b""
    for tag, kind, count, content in values:
        data += b"\0" * (-len(data) % 4)
        table += struct.pack(">4I", tag, kind, len(data), count)
        data += content
    return struct.pack(">2I", len(values), len(data)) + table + data


def rpm_database(top: Path, *blobs: bytes, statement: str = "CREATE TABLE Packages (hnum INTEGER, blob BLOB)") -> Path:
    path = write(top, "/var/lib/rpm/rpmdb.sqlite")
    path.unlink()
    database = sqlite3.connect(path)
    database.execute(statement)
    for blob in blobs:
        database.execute("INSERT INTO Packages VALUES (1, ?)", (blob,))
    database.commit()
    database.close()
    return path
