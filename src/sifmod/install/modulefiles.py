"""Module files: each is written atomically, changes of a failed run are undone, and those that stay are recorded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sifmod.errors import InstallError, os_errors
from sifmod.host.files import sha256_of
from sifmod.host.writing import keep_as, put_in_place
from sifmod.install.manifest import read_manifest, rewrite_manifest


class ModuleFiles:
    """The changes of one run in the module trees, until they are kept or undone.

    `module load` may come at any time, and the run may be killed at any time: under the name of a module file or a
    link there is the old one or the new one, whole. The old one is kept beside it, under a name of `helper_names`: the
    next run removes what a killed one has left.
    """

    def __init__(self) -> None:
        self._replaced: list[Path] = []

    def write(self, path: Path, text: str) -> None:
        """Write a module file into a folder that exists; after InstallError an earlier one is unchanged."""

        def make(draft: Path) -> None:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(descriptor, "wb") as stream:
                if path.is_file():
                    with contextlib.suppress(PermissionError):
                        os.fchmod(stream.fileno(), path.stat().st_mode & 0o777)
                stream.write(text.encode())

        self._replace(path, make, put_in_place)

    def link(self, path: Path, target: Path) -> None:
        """Make a link to a module file, or leave a correct one; on InstallError an earlier one is unchanged."""
        is_right = path.is_symlink() and path.readlink() == target
        if is_right and not any(os.path.lexists(helper) for helper in helper_names(path)):
            return
        self._replace(path, lambda draft: draft.symlink_to(target), Path.replace)

    def undo(self) -> None:
        """Undo all changes; a second call does nothing. InstallError names a file that can't be restored."""
        while self._replaced:
            path = self._replaced.pop()
            with os_errors(InstallError, f"restoring '{path}' failed"):
                kept = helper_names(path)[1]
                if os.path.lexists(kept):
                    kept.replace(path)
                    kept.unlink(missing_ok=True)  # still exists if both were names of the same file
                else:
                    path.unlink(missing_ok=True)
                    with contextlib.suppress(OSError):
                        path.parent.rmdir()

    def keep(self) -> None:
        """Keep all changes."""
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


def record_module_files(installdir: Path) -> None:
    """Add the SHA-256 of the module file that an install has written to the manifest.

    Call it when nothing can be undone any more: until then the manifest has no SHA-256 for the file, and is right for
    the old one and for the new one. Do nothing if sifmod has not installed anything there.

    Raises:
        InstallError: the module file can't be read, or the manifest can't be read or written.
    """
    manifest = read_manifest(installdir)
    if manifest is None:
        return
    try:
        digests = {path: digest or _sha256(Path(path)) for path, digest in manifest.module_files.items()}
    except OSError as error:
        raise InstallError(f"the module file '{error.filename}' can't be read: {error.strerror}") from error
    if digests != manifest.module_files:
        rewrite_manifest(installdir, replace(manifest, module_files=digests))


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a module file; empty for a link to one."""
    return "" if path.is_symlink() else sha256_of(path)


def helper_names(path: Path) -> tuple[Path, Path]:
    """Return the temporary names of a new module file, and of the earlier one until the new one is kept.

    Module tools don't list them: they begin with a dot, and do not end in `.lua`.
    """
    return path.with_name(f".{path.name}.sifmod-new"), path.with_name(f".{path.name}.sifmod-old")
