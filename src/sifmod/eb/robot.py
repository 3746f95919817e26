"""The settings that let an EasyBuild outside sifmod's own environment find sifmod's easyblock and easyconfigs."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

from sifmod.errors import InstallError
from sifmod.text import quoting

# How each shell sets a variable and quotes its value.
_FORMS = {
    "bash": ("export {}={}\n", quoting.shell),
    "csh": ("setenv {} {};\n", quoting.csh),
    "fish": ("set -gx {} {};\n", quoting.fish),
}
SHELLS = tuple(_FORMS)

# The modules that sifmod's library imports: the easyblock may use any part of it.
_LIBRARIES = ("sifmod", "elftools", "jinja2", "markupsafe", "packaging", "PySquashfsImage", "tomli")

# The smallest of the easyconfigs that come with sifmod; README and tutorial begin with it.
DEMO_EASYCONFIG = "Python-3.11-demo-singularity.eb"

# The folder that sifmod is imported from: `site-packages`, or `src` of a checkout (an editable install's too).
_LIBRARY = Path(__file__).resolve().parents[2]


def easyconfigs_path() -> Path:
    """Return the folder of the easyconfigs that come with sifmod."""
    return _first("easyconfigs", Path("easybuild", "easyconfigs"), Path("easyconfigs"))


def easyblock_path() -> Path:
    """Return the file of the easyblock."""
    name = "containerimage.py"
    return _first("easyblock", Path("easybuild", "easyblocks", "generic", name), Path("easyblocks", name))


def _first(what: str, installed: Path, in_checkout: Path) -> Path:
    """Return its path in an installed wheel or in a checkout; pyproject.toml maps one to the other."""
    candidates = (_LIBRARY / installed, _LIBRARY.parent / in_checkout)
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise InstallError(
        f"sifmod's own {what} is missing (looked at {', '.join(map(str, candidates))}): reinstall sifmod"
    )


def easybuild_settings(shell: str, environ: Optional[Mapping[str, str]] = None) -> str:
    """Return commands of one of `SHELLS` for EASYBUILD_INCLUDE_EASYBLOCKS, EASYBUILD_ROBOT_PATHS and SIFMOD_PYTHONPATH.

    EasyBuild's variables keep their present values, behind sifmod's own. SIFMOD_PYTHONPATH is where the easyblock finds
    sifmod's libraries: PYTHONPATH would bring them into containers too, before the image's own.
    """
    environ = os.environ if environ is None else environ
    found = (importlib.util.find_spec(name) for name in _LIBRARIES)
    libraries = dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin)
    settings = {
        "EASYBUILD_INCLUDE_EASYBLOCKS": _extended(
            environ.get("EASYBUILD_INCLUDE_EASYBLOCKS", ""), ",", str(easyblock_path())
        ),
        "EASYBUILD_ROBOT_PATHS": _robot_paths(environ.get("EASYBUILD_ROBOT_PATHS", "")),
        "SIFMOD_PYTHONPATH": ":".join(libraries),
    }
    form, quote = _FORMS[shell]
    return "".join(form.format(name, quote(value)) for name, value in settings.items())


def _robot_paths(present: str) -> str:
    """Return the robot path with sifmod's easyconfigs in it.

    An empty element stands for EasyBuild's own robot path (EasyBuild docs, "Robot search path"). If no other path is
    set, the empty element goes first: Lmod doubles an empty element at the end, and EasyBuild takes the second one for
    the current directory.
    """
    if not present.strip(":"):
        return f":{easyconfigs_path()}"
    return _extended(present, ":", str(easyconfigs_path()))


def _extended(present: str, separator: str, path: str) -> str:
    """Return the list with the path in front, unless the path is in it already."""
    there = present.split(separator) if present else []
    return separator.join(there if path in there else [path, *there])
