"""Module files: each is written whole or not at all, and what a failed run has written is taken back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from sifmod.errors import InstallError
from sifmod.host.files import keep_as, put_in_place


class ModuleFiles:
    """What one run writes into the trees of modules, until it is kept or taken back.

    `module load` may come at any time, and the run may be killed at any time: under the name of a module file or a
    link there is the old one or the new one, whole. The old one is kept beside it, under a name of `helper_names`: the
    next run removes what a killed one has left.
    """

    def __init__(self) -> None:
        self._replaced: list[Path] = []

    def write(self, path: Path, text: str) -> None:
        """Write a module file into a folder that exists.

        Raises:
            InstallError: it can't be written; an earlier one is as it was.
        """

        def make(draft: Path) -> None:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(descriptor, "wb") as stream:
                if path.is_file():
                    with contextlib.suppress(PermissionError):
                        os.fchmod(stream.fileno(), path.stat().st_mode & 0o777)
                stream.write(text.encode())

        self._replace(path, make, put_in_place)

    def link(self, path: Path, target: Path) -> None:
        """Make a symbolic link to a module file, in a folder that exists; one that is right already is left alone.

        Raises:
            InstallError: it can't be made; an earlier one is as it was.
        """
        is_right = path.is_symlink() and path.readlink() == target
        if is_right and not any(os.path.lexists(helper) for helper in helper_names(path)):
            return
        self._replace(path, lambda draft: draft.symlink_to(target), Path.replace)

    def undo(self) -> None:
        """Take back what was written; nothing happens a second time.

        Raises:
            InstallError: it can't be taken back; the message names the file.
        """
        while self._replaced:
            path = self._replaced.pop()
            try:
                kept = helper_names(path)[1]
                if os.path.lexists(kept):
                    kept.replace(path)
                    kept.unlink(missing_ok=True)  # where both were names of the same file
                else:
                    path.unlink(missing_ok=True)
                    with contextlib.suppress(OSError):
                        path.parent.rmdir()
            except OSError as error:
                raise InstallError(f"bringing '{path}' back failed: {error.strerror}") from error

    def keep(self) -> None:
        """Let what was written stay."""
        while self._replaced:
            with contextlib.suppress(OSError):
                helper_names(self._replaced.pop())[1].unlink()

    def _replace(self, path: Path, make: Callable[[Path], None], put: Callable[[Path, Path], object]) -> None:
        draft, kept = helper_names(path)
        try:
            for helper in (draft, kept):
                helper.unlink(missing_ok=True)
            make(draft)
            if os.path.lexists(path):
                keep_as(path, kept)
            self._replaced.append(path)
            put(draft, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise InstallError(f"writing the module file '{path}' failed: {error.strerror}") from error


def helper_names(path: Path) -> tuple[Path, Path]:
    """Return the names of a module file while it is written, and of the earlier one until the new one is to stay.

    No module tool offers them: they begin with a dot, and do not end in `.lua`.
    """
    return path.with_name(f".{path.name}.sifmod-new"), path.with_name(f".{path.name}.sifmod-old")
