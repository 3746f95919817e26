"""One of LUMI's recipes, from a checkout of LUMI-EasyBuild-containers, beside an easyconfig for the same image."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import Data

_EASYCONFIG = """\
sources = ['{image}']
conda_env = 'pytorch'
venv = 'pytorch'
wrappers = ['python', 'pip']
"""
# LUMI's Lmod has this function: its modules don't load without it.
_SITE_PACKAGE = """\
require("sandbox")
sandbox_registration({ create_container_vars = function() end })
"""


@dataclass(frozen=True)
class Recipe:
    """A recipe of LUMI's, and the testbed's image under the name of LUMI's.

    data: the data of the benchmarks. path: the easyconfig.
    """

    data: Data
    path: Path

    @property
    def _parameters(self) -> dict[str, Any]:
        """What the easyconfig says; it is run as EasyBuild runs it."""
        return runpy.run_path(str(self.path), {"SYSTEM": {"name": "system", "version": "system"}})

    def make(self) -> None:
        """Put the image where both look for it, and write the easyconfig and what LUMI's needs of its Lmod."""
        self._images.mkdir(exist_ok=True)
        (first,) = self._parameters["sources"]
        image = self._images / Path(first["filename"]).name
        image.unlink(missing_ok=True)
        image.symlink_to(self.data.images / "conda-demo.sif")
        (self._images / "SitePackage.lua").write_text(_SITE_PACKAGE)
        self.data.easyconfig("Ours", _EASYCONFIG.format(image=image.name))

    @property
    def _images(self) -> Path:
        return self.data.scratch / "lumi"

    @property
    def _prefix(self) -> Path:
        return self.data.scratch / "eb"

    @property
    def clean(self) -> str:
        """The command that removes what both have installed."""
        return f"rm -rf {self._prefix}"

    def _eb(self, words: str) -> str:
        return f"export EASYBUILD_PREFIX={self._prefix} EASYBUILD_SOURCEPATH={self._images}; eb {words}"

    @property
    def ours(self) -> str:
        """The command that installs ours."""
        return self._eb(str(self.data.scratch / "Ours-1.eb"))

    @property
    def theirs(self) -> str:
        """The command that installs LUMI's, without its checks of packages that only LUMI's image has."""
        return f"export LMOD_PACKAGE_PATH={self._images}; {self._eb(f'--skip-sanity-check {self.path}')}"
