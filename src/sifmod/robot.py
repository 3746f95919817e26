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
        "EASYBUILD_INCLUDE_EASYBLOCKS": _joined(
            ",", [str(easyblock_path())], environ.get("EASYBUILD_INCLUDE_EASYBLOCKS")
        ),
        # the trailing separator keeps EasyBuild's own robot path (EasyBuild docs, "Using the EasyBuild command line")
        "EASYBUILD_ROBOT_PATHS": _joined(":", [str(easyconfigs_path())], environ.get("EASYBUILD_ROBOT_PATHS") or ":"),
        "PYTHONPATH": _joined(":", list(libraries), environ.get("PYTHONPATH")),
    }
    form = {"bash": "export {}={}\n", "csh": "setenv {} {};\n", "fish": "set -gx {} {};\n"}[shell]
    return "".join(form.format(name, quoting.shell(value)) for name, value in settings.items())


def _joined(separator: str, first: list[str], present: Optional[str]) -> str:
    if present == ":":
        return separator.join(first) + ":"
    return separator.join([*first, *(item for item in (present or "").split(separator) if item)])
