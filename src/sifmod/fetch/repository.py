"""An image that is there already: in the site's image repositories, which are folders of images, or unpacked."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path
from typing import Any, Optional

from sifmod.image.sif import sif_id
from sifmod.site.settings import Site


def image_in_repositories(site: Site, file_name: str, *, size: int = 0, identifier: str = "") -> Optional[Path]:
    """Return the path of an image, in the first repository with one of this size and `sif_id`, if given; else None."""
    for folder in site.image_repositories:
        path = Path(folder, file_name)
        with contextlib.suppress(OSError):
            status = path.stat()
            is_image = stat.S_ISREG(status.st_mode) and size in (0, status.st_size)
            if is_image and identifier in ("", sif_id(path) if identifier else ""):
                return path
    return None


def unpacked_image(source: Any) -> Optional[Path]:
    """Return the directory of an unpacked image that `sources` names by its absolute path; None if it is a file.

    A link, which on CVMFS is a tag, may lead elsewhere tomorrow, so it is followed.
    """
    is_directory = isinstance(source, str) and source.startswith("/") and Path(source).is_dir()
    return Path(source).resolve() if is_directory else None
