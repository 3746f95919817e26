"""Writing one text file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from sifmod.errors import SifmodError


def write_text(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a text file under a temporary name beside it, and rename it.

    Args:
        path: of the file.
        text: what it will hold.
        overwrite: whether a file that is there is replaced.

    Raises:
        SifmodError: it is there already, or can't be written.
    """
    if not overwrite and os.path.lexists(path):
        raise SifmodError(f"'{path}' exists: choose another file with --output, or overwrite it with --force")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise SifmodError(f"'{path}' can't be written: {error.strerror}") from error
