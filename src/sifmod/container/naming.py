"""The names of a container's module and installation, by EasyBuild's naming scheme and settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Naming:
    """How EasyBuild names what it installs from one easyconfig."""

    module: str  # name of the module, as for `module load`: EasyBuild's short module name
    # EasyBuild's full module name, which in a hierarchy begins with the folder that is in `MODULEPATH`
    full_module: str
    install_subdir: str  # path of the installation in the folder of all installations
    module_files: tuple[str, ...]  # absolute paths of the module file and of the links to it, the file first
