"""SHPC (singularity-hpc from PyPI) beside sifmod: recipes, a settings file and easyconfigs for the same tools."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from bench.data import Data
from bench.measure import bash

# SHPC's own defaults, but for the folders: its settings file is the one of the package.
_FOLDERS = ("module_base", "container_base", "wrapper_base", "views_base")
_RECIPE = """\
path: {file}
url: https://www.htslib.org/
maintainer: '@nobody'
description: programs for sequences
latest:
  {version}: {digest}
tags:
  {version}: {digest}
aliases:
  samtools: /usr/bin/samtools
"""
_EASYCONFIG = """\
sources = ['samtools.sif']
checksums = ['{digest}']
gpu = ''
wrappers = ['samtools']
module_family = ''
"""
# What EasyBuild itself does for an install: a folder, a module, and a look at both.
_EMPTY = """\
postinstallcmds = ['mkdir -p %(installdir)s/empty && touch %(installdir)s/empty/file']
sanity_check_paths = {'files': [], 'dirs': ['empty']}
"""
VERSION = "1"


@dataclass(frozen=True)
class Tools:
    """The same image as several tools, for both.

    data: the data of the benchmarks. count: how many tools.
    """

    data: Data
    count: int

    @property
    def folder(self) -> Path:
        return self.data.scratch / "shpc"

    @property
    def names(self) -> list[str]:
        return [f"tool{number}" for number in range(self.count)]

    @property
    def settings(self) -> Path:
        return self.folder / "settings.yml"

    @property
    def prefix(self) -> Path:
        """The software space of the easyconfigs."""
        return self.data.scratch / "eb"

    @property
    def clean(self) -> str:
        """The command that removes what both have installed."""
        kept = " ".join(str(self.folder / name) for name in _FOLDERS)
        return f"rm -rf {self.prefix} {kept}"

    def make(self) -> None:
        """Write recipes with the image, the settings, and the easyconfigs."""
        image = self.data.images / "samtools.sif"
        digest = bash(f"sha256sum {shlex.quote(str(image))}").split()[0]
        for name in self.names:
            recipe = self.folder / "registry" / "bench" / name
            recipe.mkdir(parents=True, exist_ok=True)
            file = f"sha256:{digest}.sif"
            (recipe / file).unlink(missing_ok=True)
            (recipe / file).symlink_to(image)
            (recipe / "container.yaml").write_text(
                _RECIPE.format(file=file, version=f"'{VERSION}'", digest=f"sha256:{digest}")
            )
            self.data.easyconfig(name, _EASYCONFIG.format(digest=digest))
            self.data.easyconfig(name.replace("tool", "empty"), _EMPTY, easyblock="Bundle")
        (shipped,) = self.data.testbed.glob("shpc/lib/python3*/site-packages/shpc/settings.yml")
        text = shipped.read_text()
        for key in _FOLDERS:
            text = re.sub(rf"(?m)^{key}:.*$", f"{key}: {self.folder / key}", text)
        text = re.sub(r"(?m)^registry:.*$", f"registry: [{self.folder / 'registry'}]", text)
        self.settings.write_text(text)

    def with_shpc(self) -> str:
        """The command that installs all tools with SHPC, which takes one at a time."""
        install = f"{self.data.testbed}/shpc/bin/shpc --settings-file {self.settings} install"
        return "; ".join(f"{install} bench/{name}:{VERSION} || exit" for name in self.names)

    def with_eb(self, prefix: str = "tool") -> str:
        """The command that installs them with EasyBuild, all at once; `empty` are as many without content."""
        space = f"export EASYBUILD_PREFIX={self.prefix} EASYBUILD_SOURCEPATH={self.data.images}"
        names = (name.replace("tool", prefix) for name in self.names)
        return f"{space}; eb {' '.join(str(self.data.scratch / f'{name}-1.eb') for name in names)}"

    @property
    def ours(self) -> Path:
        return self.prefix / "modules/all"

    @property
    def theirs(self) -> Path:
        return self.folder / "module_base"
