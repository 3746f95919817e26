"""Where the large files of an installation lie: on one storage target, or on several, as the site's `stripe` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sifmod import names
from sifmod.host.striping import is_unstriped
from sifmod.installed.installation import Installation
from sifmod.site.settings import Site


def large_files(installation: Installation) -> tuple[Path, ...]:
    """Return the images, if they are the installation's own, and the packed user software: those that exist."""
    own = [installation.image] if installation.has_own_image else []
    own += [installation.squashfs] if installation.squashfs and not installation.manifest.bases else []
    found = [*own, installation.root / names.USER_SOFTWARE_PACKED]
    return tuple(path for path in found if path.is_file() and not path.is_symlink())


def unstriped_files(installation: Installation, site: Site) -> Iterator[Path]:
    """Yield the large files that lie on one storage target of Lustre, although the site spreads such files."""
    for path in large_files(installation):
        if is_unstriped(path, site.stripe):
            yield path
