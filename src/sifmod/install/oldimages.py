"""Old images: what a rebuild to an image of another file name leaves, for jobs and shells that still use it."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.errors import InstallError
from sifmod.host.files import inside, write_whole
from sifmod.install.manifest import Manifest, read_manifest


def superseded_images(installdir: Path, before: Optional[Manifest], files: Iterable[str]) -> tuple[str, ...]:
    """Return the names of images that stay when an installation is replaced: the one in use so far, if it has its own.

    Args:
        installdir: the installation.
        before: its manifest so far; None for a first install.
        files: paths of the files that it is going to have.
    """
    if before is None or before.image not in before.files or before.image in files:
        return ()
    return (before.image,) if inside(installdir, before.image).is_file() else ()


def remove_old_images(installdir: Path) -> tuple[str, ...]:
    """Remove the old images of an installation that nobody else is changing, and return their names.

    Raises:
        InstallError: they can't be removed, or the manifest can't be read or written.
    """
    manifest = read_manifest(installdir)
    if manifest is None or not manifest.old_images:
        return ()
    files = tuple(name for name in manifest.files if name not in manifest.old_images)
    try:
        path = inside(installdir, names.MANIFEST)
        with _writable(installdir), _writable(path.parent):
            # a manifest that lists a missing image does no harm; an image that none lists would be nobody's
            for name in manifest.old_images:
                inside(installdir, name).unlink(missing_ok=True)
            text = replace(manifest, files=files, old_images=()).text
            write_whole(path, text, mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise InstallError(f"removing old images from '{installdir}' failed: {error.strerror}") from error
    return manifest.old_images


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Let the owner write to a folder that eb has left read-only, as long as the block takes."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IWUSR:
        yield
        return
    folder.chmod(mode | stat.S_IWUSR)
    try:
        yield
    finally:
        folder.chmod(mode)
