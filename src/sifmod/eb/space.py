"""The software space: the folders that EasyBuild installs into and takes images from, from its own settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.eb.configuration import configuration
from sifmod.errors import InstallError


@dataclass(frozen=True)
class SoftwareSpace:
    """Where one user's EasyBuild installs to."""

    software: Path  # folder of the installations: `NAME/VERSION` below it
    modules: Path  # folder of the module trees: `all/NAME/VERSION.lua` below it, and links to it by module class
    suffix: str = "all"  # name of the tree that holds the module files themselves
    # folder of the locks of running installs; None for EasyBuild's default, `.locks` below `software`
    locks: Optional[Path] = None

    def lock(self, root: Path) -> Path:
        """Return the lock that `eb` holds while it works on an installation directory of this space.

        Its name is the path of the directory as EasyBuild spells it, so a link on the way to `root` does not count
        (easybuild.framework.easyblock, run_all_steps, and easybuild.tools.filetools, det_lock_path).

        Raises:
            ValueError: the directory is not in this space.
        """
        installdir = self.software / root.resolve().relative_to(self.software.resolve())
        return (self.locks or self.software / ".locks") / f"{str(installdir).replace('/', '_')}.lock"


def software_space(prefix: Optional[Path] = None, environ: Optional[Mapping[str, str]] = None) -> SoftwareSpace:
    """Return the software space of the given prefix, else that of EasyBuild's configuration.

    Raises:
        InstallError: the prefix is not a directory.
        EasyBuildError: EasyBuild's configuration can't be read.
    """
    if prefix is not None and not prefix.is_dir():
        raise InstallError(f"there is no directory '{prefix}': set --prefix to the prefix of an EasyBuild")
    found = configuration(prefix, environ)
    return SoftwareSpace(found.software, found.modules, found.suffix, found.locks)


def source_paths(environ: Optional[Mapping[str, str]] = None) -> tuple[Path, ...]:
    """Return the folders in which EasyBuild looks for sources; it keeps them in the first one."""
    return configuration(environ=environ).sources


def find_image(file_name: str, module_name: str, *, folders: Iterable[Path] = ()) -> Optional[Path]:
    """Return the image of a module, by its name without version, from the folders of sources or others; else None."""
    candidates = [path for folder in source_paths() for path in (folder / letter_folder(module_name), folder)]
    images = (folder / file_name for folder in (*candidates, *folders))
    return next((image for image in images if os.path.isfile(image)), None)  # noqa: PTH113 - without an error where a folder above is not ours


def letter_folder(name: str) -> Path:
    """Return the folder of a module's sources below those of `source_paths`, and of its easyconfigs in a robot path.

    EasyBuild's `letter_dir_for` states the rule for the letter.
    """
    letter = name.lower()[:1]
    return Path(letter if "a" <= letter <= "z" else "0", name)
