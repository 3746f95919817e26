"""The names of a container's module and installation, by EasyBuild's naming scheme and settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sifmod.errors import ParameterError

# Module systems and tools such as ReFrame and Snakemake write the name into commands of a shell. A dot hides a version.
MODULE_NAME = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_.+@=-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.+@=-]*)*")


@dataclass(frozen=True)
class Naming:
    """How EasyBuild names what it installs from one easyconfig."""

    module: str  # name of the module, as for `module load`: EasyBuild's short module name
    # EasyBuild's full module name, which in a hierarchy begins with the folder that is in `MODULEPATH`
    full_module: str
    install_subdir: str  # path of the installation in the folder of all installations
    module_files: tuple[str, ...]  # absolute paths of the module file and of the links to it, the file first

    def __post_init__(self) -> None:
        for name in (self.module, self.full_module):
            if not MODULE_NAME.fullmatch(name):
                raise ParameterError(
                    "name",
                    name,
                    "names of modules have letters, digits and '_.+@=-': correct name, version or versionsuffix",
                )
