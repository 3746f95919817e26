"""Files of this host: their digests, and files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Callable

from sifmod.errors import SifmodError


def sha256_of(path: Path, *, progress: Callable[[int], object] = lambda _size: None) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Args:
        path: the file.
        progress: called with the number of bytes after each piece that was read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(4 * 1024 * 1024):
            digest.update(chunk)
            progress(len(chunk))
    return digest.hexdigest()


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text file, whole or not at all.

    Args:
        path: the file.
        text: its content.
        force: whether a file that exists is replaced.

    Raises:
        SifmodError: it exists, or can't be written.
    """
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".sifmod-", encoding="utf-8", delete=False
        ) as draft:
            draft.write(text)
        try:
            umask = os.umask(0)
            os.umask(umask)
            Path(draft.name).chmod(0o666 & ~umask)
            if force:
                Path(draft.name).replace(path)
            else:
                os.link(draft.name, path)
        finally:
            Path(draft.name).unlink(missing_ok=True)
    except FileExistsError as error:
        raise SifmodError(f"'{path}' exists: choose another name, or write over it with --force") from error
    except OSError as error:
        raise SifmodError(f"'{path}' can't be written: {error.strerror}") from error
