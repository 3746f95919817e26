"""An artefact: one rendered file of an installation."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from sifmod import names
from sifmod.errors import InstallError

_NO_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # of Linux, in bytes


@dataclass(frozen=True)
class Artefact:
    """One file of an installation, before anything is written; InstallError if sifmod must not write to its path."""

    path: PurePosixPath  # path relative to the installation directory
    text: str
    executable: bool = False  # whether it is a command; the umask sets the rest of the mode

    def __post_init__(self) -> None:
        problem = path_problem(str(self.path))
        if problem:
            raise InstallError(f"{str(self.path)!r} can't be a file of an installation: {problem}")

    @property
    def sha256(self) -> str:
        """SHA-256 of the file as it is written, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def path_problem(path: str) -> str:
    """Return why sifmod must not write to a path of an installation; empty if it may."""
    parts = path.split("/")
    if path.startswith("/"):
        return "the path is absolute"
    if ".." in parts:
        return "the path leads out of the installation"
    if {"", "."} & set(parts):
        return "the path has an empty part"
    if _NO_NAME.search(path):
        return "the path has a control character, or is not UTF-8"
    if len(path) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return "the path is too long"
    if parts[0].lstrip(".").startswith(names.USERS):
        return "user software belongs to the users"
    return ""
