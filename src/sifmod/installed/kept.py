"""The record of user software that was kept elsewhere: what there is, so that none is missed on the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sifmod import names
from sifmod.errors import InstallError
from sifmod.host.files import content_of, sha256_of
from sifmod.host.writing import write_whole
from sifmod.installed.installation import Installation
from sifmod.text.digest import SHA256

RECORD = "kept.json"
_LINK = "link to "


@dataclass(frozen=True)
class Kept:
    """What a folder has of a module's user software, by path in an installation: SHA-256, or `link to TARGET`."""

    module: str
    python_version: str
    venv: str
    files: Mapping[str, str]

    @property
    def tops(self) -> tuple[str, ...]:
        """The names at the top of an installation, sorted."""
        return tuple(sorted({name.partition("/")[0] for name in self.files}))


def contents(top: Path, name: str) -> dict[str, str]:
    """Return the files of one name in a folder, as they are recorded; links are not followed."""
    path = top / name
    if path.is_symlink():
        return {name: f"{_LINK}{path.readlink()}"}
    if not path.is_dir():
        return {name: sha256_of(path)}
    found: dict[str, str] = {}
    for entry in sorted(path.iterdir()):
        found.update(contents(top, f"{name}/{entry.name}"))
    return found


def write_record(installation: Installation, folder: Path) -> None:
    """Record what was kept in a folder, as the last file: without it the copy is not complete."""
    manifest = installation.manifest
    files: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(names.USERS):
            files.update(contents(folder, path.name))
    kept = Kept(installation.module, manifest.python_version, manifest.venv, files)
    write_whole(folder / RECORD, json.dumps(asdict(kept), indent=1, sort_keys=True, ensure_ascii=True) + "\n")


def read_record(folder: Path) -> Kept:
    """Return what a folder should have."""
    path = folder / RECORD
    try:
        data = json.loads(content_of(path).decode())
        return Kept(
            module=_text(data["module"]),
            python_version=_text(data["python_version"]),
            venv=_text(data["venv"]),
            files=dict(_file(name, what) for name, what in data["files"].items()),
        )
    except FileNotFoundError as error:
        raise InstallError(
            f"'{folder}' has no {RECORD}: sifmod keep has written nothing there, or was stopped before its end"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InstallError(f"'{path}' can't be read ({error}): the copy in '{folder}' can't be trusted") from error


def _file(name: str, what: Any) -> tuple[str, str]:
    """Return a file and what it was, checked: a record can only name user software."""
    parts = name.split("/")
    if not parts[0].startswith(names.USER_SOFTWARE_DIRECTORY) or {"", ".", ".."} & set(parts):
        raise ValueError(f"{name!r} is no file of user software")
    if not SHA256.fullmatch(_text(what)) and not what.startswith(_LINK):
        raise ValueError(f"{name!r} has no SHA-256")
    return _text(name), what


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError(f"{value!r} is no text")
    return value
