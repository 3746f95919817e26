"""The Singularity Image Format: enough of its header to tell an image from anything else."""

from __future__ import annotations

import struct
from pathlib import Path

from sifmod.errors import ImageError

# Global header of SIF version 01: launch script, magic, version, architecture (github.com/sylabs/sif, pkg/sif).
_HEADER = struct.Struct("<32s10s3s3s")
_MAGIC = b"SIF_MAGIC\0"


def check_is_sif(path: Path) -> None:
    """Raise unless the file begins as a SIF does.

    Args:
        path: the file to look at.

    Raises:
        ImageError: it can't be read, or it is not a SIF; the message says what was found.
    """
    if not path.is_file():
        raise ImageError(f"'{path}' is not a file: give the path of a SIF")
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEADER.size)
    except OSError as error:
        raise ImageError(f"the image '{path}' can't be read: {error.strerror}") from error
    if len(head) == _HEADER.size and _HEADER.unpack(head)[1] == _MAGIC:
        return
    if not head:
        found = "an empty file"
    elif head.startswith((b"hsqs", b"\x1f\x8b", b"\xfd7zXZ", b"BZh")) or head[:5] in (b"<!DOC", b"<html"):
        found = {b"hsqs": "a bare SquashFS file", b"<!DO": "a web page", b"<htm": "a web page"}.get(
            head[:4], "a compressed archive"
        )
    else:
        found = f"a file that begins with {head[:8]!r}"
    raise ImageError(f"'{path}' is not a SIF but {found}: fetch or build the image again")
