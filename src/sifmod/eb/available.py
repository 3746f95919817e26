"""Easyconfigs of container images where EasyBuild looks for them: is there a newer one than what is installed?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

from sifmod.eb.robot import easyconfigs_path
from sifmod.errors import EasyconfigError
from sifmod.text.suggest import perhaps

_EASYBLOCK = re.compile(r"""^easyblock\s*=\s*['"]ContainerImage['"]""", re.MULTILINE)


def newer_easyconfigs(name: str, version: str, environ: Optional[Mapping[str, str]] = None) -> tuple[Path, ...]:
    """Return easyconfigs of a container's newer versions, the newest first.

    Versions are compared number by number, and only where the words between the numbers are the same:
    `2.7.1-rocm-6.2.4-python-3.12` is newer than `2.2.0-rocm-5.6.1-python-3.10`, while `24.03-ngc` is another thing.

    Args:
        name: name of the software.
        version: its full version, suffix included.
        environ: the environment with EasyBuild's robot path, `os.environ` by default.
    """
    words, numbers = _parts(version)
    newer: dict[str, tuple[tuple[int, ...], Path]] = {}
    for path in easyconfigs_of(name, environ):
        other_words, other_numbers = _parts(path.stem[len(name) + 1 :])
        if other_words == words and other_numbers > numbers:
            newer.setdefault(path.name, (other_numbers, path))
    return tuple(path for _numbers, path in sorted(newer.values(), key=lambda item: item[0], reverse=True))


def easyconfigs_of(name: str, environ: Optional[Mapping[str, str]] = None) -> Iterator[Path]:
    """Give the easyconfigs of container images called `name`, in the order of the robot path.

    Args:
        name: name of the software.
        environ: the environment with EasyBuild's robot path, `os.environ` by default.
    """
    for folder in _robot_path(os.environ if environ is None else environ):
        # the places below a robot path where EasyBuild looks (easybuild.framework.easyconfig.tools, create_paths)
        for place in (folder / name[:1].lower() / name, folder / name, folder):
            for path in sorted(place.glob(f"{_literal(name)}-*.eb")):
                if _is_ours(path):
                    yield path


def easyconfig_path(given: Path, environ: Optional[Mapping[str, str]] = None) -> Path:
    """Return an easyconfig that a user has named: its path, or, as for `eb`, its name in the robot path.

    Raises:
        EasyconfigError: there is none of this name.
    """
    return given if given.is_file() or "/" in str(given) else find_easyconfig(given.name, environ)


def find_easyconfig(file_name: str, environ: Optional[Mapping[str, str]] = None) -> Path:
    """Return the easyconfig of a container image with this file name, in EasyBuild's robot path.

    Raises:
        EasyconfigError: there is none; the message says what is near.
    """
    # a name may have dashes itself
    names = {file_name[: match.start()] for match in re.finditer("-", file_name)}
    found = {path.name: path for name in sorted(names) for path in easyconfigs_of(name, environ)}
    if file_name not in found:
        raise EasyconfigError(
            f"there is no easyconfig '{file_name}', neither here nor in EasyBuild's robot path"
            f"{perhaps(file_name, found)}: give the path of one"
        )
    return found[file_name]


def _robot_path(environ: Mapping[str, str]) -> Iterator[Path]:
    listed = f"{environ.get('EASYBUILD_ROBOT', '')}:{environ.get('EASYBUILD_ROBOT_PATHS', '')}".split(":")
    yield from dict.fromkeys([*(Path(path) for path in listed if path), easyconfigs_path()])


def _literal(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _is_ours(path: Path) -> bool:
    try:
        return bool(_EASYBLOCK.search(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False


def _parts(version: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the words of a version, and its numbers."""
    return tuple(re.findall(r"[A-Za-z]+", version)), tuple(int(number) for number in re.findall(r"\d+", version))
