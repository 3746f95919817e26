"""Old images: what a rebuild to an image of another file name leaves, for jobs and shells that still use it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Optional

from sifmod.errors import InstallError, os_errors
from sifmod.host.files import inside
from sifmod.install.manifest import Manifest, read_manifest, rewrite_manifest, writable


def superseded_images(installdir: Path, before: Optional[Manifest], images: Collection[str]) -> tuple[str, ...]:
    """Return the names of images that stay when an installation is replaced: those in use so far, if it has its own.

    After a run that was stopped or killed, the module file may still name an old image, so these stay too. An image of
    the same name as the new one is not kept: with `image_mode = 'central'` the module names another place.
    """
    if before is None:
        return ()
    current = tuple(filter(None, (before.image, before.squashfs)))
    replaced = current if is_complete(before) else (*before.old_images, *current)
    own = [name for name in replaced if name in before.files and name not in images]
    return tuple(name for name in own if inside(installdir, name).is_file())


def is_complete(manifest: Manifest) -> bool:
    """Return whether the install came to its end, so that the module file names the image of the manifest."""
    return all(digest or Path(path).is_symlink() for path, digest in manifest.module_files.items())


def remove_old_images(installdir: Path) -> tuple[str, ...]:
    """Remove the old images of an installation that nobody else is changing, and return their names.

    Raises:
        InstallError: they can't be removed, or the manifest can't be read or written.
    """
    manifest = read_manifest(installdir)
    if manifest is None or not manifest.old_images:
        return ()
    files = tuple(name for name in manifest.files if name not in manifest.old_images)
    with os_errors(InstallError, f"removing old images from '{installdir}' failed"), writable(installdir):
        # a manifest that lists a missing image does no harm; an image that none lists would be nobody's
        for name in manifest.old_images:
            inside(installdir, name).unlink(missing_ok=True)
    rewrite_manifest(installdir, replace(manifest, files=files, old_images=()))
    return manifest.old_images
