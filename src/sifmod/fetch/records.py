"""Records of the images that this user has pulled and built, in the user's own folder for state.

A record beside an image would come with it from wherever it is, such as a stranger's clone that is a source path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from sifmod.host.files import content_of, sha256_of
from sifmod.host.owners import other_writers
from sifmod.host.writing import write_whole
from sifmod.text.digest import DIGEST, SHA256

_LARGEST = 64 << 10  # bytes of a record


@dataclass(frozen=True)
class StoredImage:
    """An image in the store."""

    origin: str  # URI that it was pulled from, or `Definition.origin`
    digest: str  # its digest in the registry, or its ID on the host that built it, as `sha256:...`; empty if unknown
    sha256: str  # SHA-256 of the SIF, in hexadecimal
    size: int  # its size in bytes
    runtime: str  # version of the runtime that made it
    modified: int = 0  # when the file was last written, in nanoseconds


def record(stored: StoredImage) -> None:
    """Write the record of an image; OSError if others may write to its folder, or it can't be written."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = _checked(folder)
    text = json.dumps(asdict(stored), indent=2, sort_keys=True) + "\n"
    write_whole(folder / f"{stored.sha256}-{_key(stored.origin)}.json", text, mode=0o600)


def record_of(image: Path, origin: str) -> Optional[StoredImage]:
    """Return the record of an image that this user has fetched from an origin; None if there is none.

    An image with the size and the time of its record is not read: its content is compared when it is used.

    Raises:
        OSError: others may write to the folder of records, or the image can't be read.
    """
    status = image.stat()
    records = [one for one in _records(origin) if (one.origin, one.size) == (origin, status.st_size)]
    known = [one for one in records if one.modified == status.st_mtime_ns]
    if records and not known:
        sha256 = sha256_of(image)
        known = [one for one in records if one.sha256 == sha256]
    return known[0] if known else None


def _records(origin: str) -> Iterator[StoredImage]:
    folder = _folder()
    if folder.is_dir():
        folder = _checked(folder)
    for path in folder.glob(f"*-{_key(origin)}.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            yield _parsed(content_of(path, most=_LARGEST).decode())


def _key(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()[:8]


def _folder() -> Path:
    # a relative one is not valid (XDG Base Directory Specification), and would be in the working directory
    named = os.environ.get("XDG_STATE_HOME", "")
    state = named if named.startswith("/") else Path(os.environ.get("HOME") or "/", ".local", "state")
    return Path(state, "sifmod", "images")


def _checked(folder: Path) -> Path:
    """Return a folder's path without links; OSError if others may change it, or put another one in its place."""
    place = folder.resolve()
    for path in (place, *place.parents):
        if writers := other_writers(path, follows=False):
            raise OSError(errno.EPERM, f"{writers} may write to '{path}'")
    return place


def _parsed(text: str) -> StoredImage:
    """Parse a record into narrow types."""
    data = json.loads(text)
    origin, digest, sha256, runtime = (str(data[key]) for key in ("origin", "digest", "sha256", "runtime"))
    size, modified = data["size"], data["modified"]
    if type(size) is not int or type(modified) is not int or not SHA256.fullmatch(sha256):
        raise ValueError("the size, the time or the SHA-256 is not valid")
    if (digest and not DIGEST.fullmatch(digest)) or not (runtime.isprintable() and len(runtime) < 200):
        raise ValueError("the digest or the version is not valid")
    return StoredImage(origin, digest, sha256, size, runtime, modified)
