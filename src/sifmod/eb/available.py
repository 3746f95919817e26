"""Easyconfigs of container images in EasyBuild's robot path: find one by name, or newer ones of a container."""

from __future__ import annotations

import datetime
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.eb.configuration import configuration
from sifmod.eb.robot import easyconfigs_path
from sifmod.eb.space import letter_folder
from sifmod.errors import EasyconfigError
from sifmod.text.suggest import perhaps

# folders that EasyBuild skips: its options ignore-dirs and consider-archived-easyconfigs
_ARCHIVE = "__archive__"
_NOT_SEARCHED = frozenset({".git", ".svn", _ARCHIVE})
_DEEPEST = 64
_LARGEST = 64 << 20  # characters of an index or an easyconfig

_VALID_UNTIL = "# valid until: "

_EASYBLOCK = re.compile(r"""^easyblock\s*=\s*['"]ContainerImage['"]""", re.MULTILINE)


def newer_easyconfigs(name: str, version: str, environ: Optional[Mapping[str, str]] = None) -> tuple[Path, ...]:
    """Return easyconfigs of a container's newer versions, the newest first.

    Versions are compared number by number, and only where the words between the numbers are the same:
    `2.7.1-rocm-6.2.4-python-3.12` is newer than `2.2.0-rocm-5.6.1-python-3.10`, while `24.03-ngc` is another kind.
    """
    words, numbers = _parts(version)
    newer: dict[str, tuple[tuple[int, ...], Path]] = {}
    for path in easyconfigs_of(name, environ):
        other_words, other_numbers = _parts(path.stem[len(name) + 1 :])
        if other_words == words and other_numbers > numbers:
            newer.setdefault(path.name, (other_numbers, path))
    return tuple(path for _numbers, path in sorted(newer.values(), key=lambda item: item[0], reverse=True))


def easyconfigs_of(name: str, environ: Optional[Mapping[str, str]] = None) -> Iterator[Path]:
    """Yield the easyconfigs of container images called `name`, in the order of the robot path."""
    return _easyconfigs_in(configuration(environ=environ).robot_paths, name)


def _easyconfigs_in(folders: Iterable[Path], name: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(path for place in _places(folder, name) for path in place.glob(f"{_literal(name)}-*.eb")):
            if _is_ours(path) and _is_indexed(folder, path):
                yield path


@dataclass(frozen=True)
class Below:
    """The easyconfigs of container images anywhere below a folder, those that `eb` finds and those in archives, sorted.

    The problems are a sentence for each folder and each easyconfig that can't be read.
    """

    offered: tuple[Path, ...]
    archived: tuple[Path, ...]
    problems: tuple[str, ...]


def easyconfigs_below(folder: Path) -> Below:
    """Return the easyconfigs of images anywhere below a folder; EasyconfigError if there is no such folder."""
    if not folder.is_dir():
        raise EasyconfigError(f"there is no directory '{folder}': name a folder of easyconfigs")
    offered: list[Path] = []
    archived: list[Path] = []
    unread: list[OSError] = []
    for where, subfolders, files in os.walk(folder, onerror=unread.append):
        parts = Path(where).relative_to(folder).parts
        is_archive = _ARCHIVE in parts
        # hidden files are those of editors: Emacs marks an open file with a link that leads nowhere
        for path in (Path(where, name) for name in files if name.endswith(".eb") and not name.startswith(".")):
            try:
                path.stat()
                if _EASYBLOCK.search(_text(path)):
                    (archived if is_archive else offered).append(path)
            except OSError as error:
                unread.append(error)
        subfolders[:] = [name for name in subfolders if name == _ARCHIVE or name not in _NOT_SEARCHED]
        if subfolders and len(parts) > _DEEPEST:  # os.walk calls itself for each level before Python 3.12
            unread.append(OSError(errno.ELOOP, "it has too many folders, each in the other", where))
            subfolders.clear()
    problems = (f"'{error.filename}' can't be read: {error.strerror}" for error in unread)
    return Below(tuple(sorted(offered)), tuple(sorted(archived)), tuple(sorted(problems)))


def beside_easyconfigs(name: str, file_name: str, folders: Iterable[Path]) -> Optional[Path]:
    """Return a file that lies beside the easyconfigs of a software; None if no folder of a robot path has it."""
    places = (folder / place / file_name for folder in folders for place in (letter_folder(name), name))
    return next((path for path in places if path.is_file()), None)


def easyconfig_path(given: Path, environ: Optional[Mapping[str, str]] = None) -> Path:
    """Return the easyconfig of a path or, as for `eb`, a file name in the robot path; EasyconfigError without one."""
    return given if given.is_file() or "/" in str(given) else find_easyconfig(given.name, environ)


def find_easyconfig(file_name: str, environ: Optional[Mapping[str, str]] = None) -> Path:
    """Return the easyconfig that `eb` finds by a file name: the first one in the robot path."""
    # a name may have dashes itself
    names = sorted({file_name[: match.start()] for match in re.finditer("-", file_name)})
    folders = configuration(environ=environ).robot_paths
    for folder in folders:
        found = _located(folder, file_name, names)
        if found:
            return found
    near = [path.name for name in names for path in _easyconfigs_in(folders, name)]
    message = (
        f"there is no easyconfig '{file_name}', neither here nor in EasyBuild's robot path{perhaps(file_name, near)}"
    )
    own = _located(easyconfigs_path(), file_name, names)
    if own:
        raise EasyconfigError(
            f"{message}. sifmod comes with '{own}': give this path, or add its folder to the robot path: sifmod env"
        )
    raise EasyconfigError(f"{message}: give the path of one")


def _located(folder: Path, file_name: str, names: Iterable[str]) -> Optional[Path]:
    """Return a file below a folder as `eb` finds it: from the index, else in its usual place, else anywhere."""
    index = _index(folder)
    if index is not None:
        return next((folder / path for path in sorted(index) if os.path.basename(path) == file_name), None)  # noqa: PTH119 - thousands of them
    for place in (place / file_name for name in names for place in _places(folder, name)):
        if place.is_file():
            return place
    for where, subfolders, files in os.walk(folder, followlinks=True):
        if file_name in files:
            return Path(where, file_name)
        subfolders[:] = sorted(name for name in subfolders if name not in _NOT_SEARCHED)
    return None


def _places(folder: Path, name: str) -> tuple[Path, ...]:
    """Return the folders of a robot path in which EasyBuild looks for NAME-VERSION.eb (its `create_paths`)."""
    return folder / name, folder / letter_folder(name), folder


def _is_indexed(folder: Path, path: Path) -> bool:
    """Return whether `eb` finds an easyconfig by its name: if there is an index, it looks nowhere else."""
    index = _index(folder)
    return index is None or str(path.relative_to(folder)) in index


def _index(folder: Path) -> Optional[frozenset[str]]:
    """Return the relative paths in EasyBuild's index of a folder (`eb --create-index`); None without a valid index."""
    try:
        lines = _text(folder / ".eb-path-index").splitlines()
    except OSError:
        return None
    until = next((line[len(_VALID_UNTIL) :] for line in lines if line.startswith(_VALID_UNTIL)), "")
    # both have the same format, so the order of the texts is that of the times
    if until and until < str(datetime.datetime.now()):
        return None
    found = (line for line in lines if not line.startswith("#"))
    return frozenset(path for path in found if not _NOT_SEARCHED.intersection(path.split("/")[:-1])) or None


def _literal(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _is_ours(path: Path) -> bool:
    try:
        return bool(_EASYBLOCK.search(_text(path)))
    except OSError:
        return False


def _text(path: Path) -> str:
    """Return the text of a file in a folder that others may write to; empty if it is a FIFO or a device."""
    if not path.is_file():
        return ""
    with path.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(_LARGEST)


def _parts(version: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the words of a version, and its numbers."""
    return tuple(re.findall(r"[A-Za-z]+", version)), tuple(int(number) for number in re.findall(r"\d+", version))
