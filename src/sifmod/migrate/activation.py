"""The conda environment that an easyconfig leaves to its image: the command in the image's variable WITH_CONDA."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sifmod.eb.space import find_image
from sifmod.errors import ImageError
from sifmod.fetch.repository import image_in_repositories
from sifmod.image import system
from sifmod.image.inspection import open_image
from sifmod.migrate.conversion import image_names
from sifmod.site.settings import Site


def with_conda(easyconfig: Path, variables: Mapping[str, Any], site: Site) -> str:
    """Return the command in WITH_CONDA of the image of an easyconfig; empty if there is none, or no image to read.

    Raises:
        EasyBuildError: EasyBuild's configuration can't be read.
    """
    for name in image_names(variables):
        # anything else is refused by the conversion
        if PurePosixPath(name).name == name:
            image = image_in_repositories(site, name) or find_image(
                name, str(variables.get("name")), folders=[easyconfig.absolute().parent]
            )
            return _variable(image) if image else ""
    return ""


def _variable(image: Path) -> str:
    try:
        with open_image(image) as (_known, files):
            return system.environment(files).get("WITH_CONDA", "") if files else ""
    except ImageError:
        return ""
