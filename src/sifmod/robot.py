"""Where EasyBuild finds what sifmod adds to it: for an EasyBuild in another place than sifmod's own environment."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

from sifmod import quoting
from sifmod.errors import InstallError

SHELLS = ("bash", "csh", "fish")

_CHECKOUT = Path(__file__).resolve().parents[2]


def easyconfigs_path() -> Path:
    """Return the folder of the easyconfigs that come with sifmod.

    Raises:
        InstallError: sifmod's installation is damaged.
    """
    return _first(
        "easyconfigs", Path(sysconfig.get_path("data"), "easybuild", "easyconfigs"), _CHECKOUT / "easyconfigs"
    )


def easyblock_path() -> Path:
    """Return the file of the easyblock.

    Raises:
        InstallError: sifmod's installation is damaged.
    """
    name = "containerimage.py"
    installed = Path(sysconfig.get_path("purelib"), "easybuild", "easyblocks", "generic", name)
    return _first("easyblock", _CHECKOUT / "easyblocks" / name, installed)


def _first(what: str, *candidates: Path) -> Path:
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise InstallError(
        f"sifmod's own {what} is missing (looked at {', '.join(map(str, candidates))}): reinstall sifmod"
    )


def easybuild_settings(shell: str, environ: Optional[Mapping[str, str]] = None) -> str:
    """Return commands that set EASYBUILD_INCLUDE_EASYBLOCKS, EASYBUILD_ROBOT_PATHS and PYTHONPATH.

    What is in those variables already stays in force behind sifmod's own.

    Args:
        shell: one of `SHELLS`.
        environ: the environment to extend, `os.environ` by default.
    """
    environ = os.environ if environ is None else environ
    libraries = dict.fromkeys(
        [str(Path(__file__).resolve().parents[1]), *(path for path in sys.path if "-packages" in path)]
    )
    settings = {
        "EASYBUILD_INCLUDE_EASYBLOCKS": _before(environ.get("EASYBUILD_INCLUDE_EASYBLOCKS", ""), ",", easyblock_path()),
        # an empty element stands for EasyBuild's own robot path (EasyBuild docs, "Robot search path")
        "EASYBUILD_ROBOT_PATHS": _before(environ.get("EASYBUILD_ROBOT_PATHS") or ":", ":", easyconfigs_path()),
        "PYTHONPATH": _before(environ.get("PYTHONPATH", ""), ":", *libraries),
    }
    form = {"bash": "export {}={}\n", "csh": "setenv {} {};\n", "fish": "set -gx {} {};\n"}[shell]
    return "".join(form.format(name, quoting.shell(value)) for name, value in settings.items())


def _before(present: str, separator: str, *first: object) -> str:
    """Return the list with the paths before what it has, once however often this is asked for."""
    missing = [str(path) for path in first if str(path) not in present.split(separator)]
    if not missing:
        return present
    if separator == present:
        return separator.join([*missing, ""])
    return separator.join([*missing, present] if present else missing)
