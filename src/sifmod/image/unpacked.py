"""An image that lies unpacked in a directory, such as on CVMFS: what identifies it, without reading all of it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sifmod.image.files import SandboxFiles

# The file of an image with its labels, such as the time of its build, and how many bytes of it are compared at load.
LABELS = ".singularity.d/labels.json"
MOST_LABELS = 4096


def unpacked_labels(top: Path) -> str:
    """Return the text of the labels, or its beginning; empty if modules can't compare it.

    That is if there is none, if it has other characters than ASCII, is no plain file, or is reached through a link.
    """
    path = os.path.realpath(top)
    if os.path.realpath(f"{path}/{LABELS}") != f"{path}/{LABELS}":
        return ""
    content = SandboxFiles(Path(path)).read(f"/{LABELS}", limit=MOST_LABELS)
    return content.decode() if content.isascii() else ""


def unpacked_id(top: Path) -> str:
    """Return an identifier of an unpacked image, in hexadecimal: of its path, which may have a digest, and labels."""
    return hashlib.sha256(
        f"{os.path.realpath(top)}\0{unpacked_labels(top)}".encode(errors="surrogateescape")
    ).hexdigest()[:32]
