"""An artefact: one rendered file of an installation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Artefact:
    """One file that an installation consists of, before anything is written.

    Attributes:
        path: path relative to the installation directory.
        text: content of the file.
        executable: whether it is a command; the umask decides about the rest of the mode.
    """

    path: PurePosixPath
    text: str
    executable: bool = False

    @property
    def sha256(self) -> str:
        """SHA-256 of the file as it is written, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()
