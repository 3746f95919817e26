"""Keeping the user software of an installation elsewhere, with its layers, and the way back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from sifmod import names
from sifmod.errors import InstallError, os_errors
from sifmod.host.files import copy_below
from sifmod.host.owners import other_writers
from sifmod.host.writing import remove_tree
from sifmod.installed.installation import Installation
from sifmod.installed.kept import RECORD, Kept, contents, read_record
from sifmod.installed.lock import hold_lock
from sifmod.installed.removal import Removal, user_software_lock
from sifmod.usersoftware.commands import refresh_commands
from sifmod.usersoftware.state import GONE, PACKED, is_untouched
from sifmod.usersoftware.tree import dangling_link

# Beside what is replaced, on its file system; the next run of eb or sifmod removes what a killed one has left.
_STAGE = f"{names.OURS}restore"
# What decides which copy is in use comes last.
_LAST = (names.USER_SOFTWARE_PACKED, names.USER_SOFTWARE_UNPACKED, names.USER_SOFTWARE_DIRECTORY)


def keep(installation: Installation, folder: Path, *, say: Callable[[str], None]) -> str:
    """Copy the user software of an installation into a folder of the module's below `folder`; change nothing else.

    Returns:
        The folder of the module; empty if users have installed nothing.

    Raises:
        InstallError: it can't be copied, or somebody is packing it.
    """
    root, removal = installation.root, Removal(installation, say=say)
    may_lock = os.access(root, os.W_OK) or os.path.lexists(root / names.USER_SOFTWARE_LOCK)
    with user_software_lock(root) if may_lock else contextlib.nullcontext():
        own = {*removal.users_own}
        problem = dangling_link(root)
        if problem:
            raise InstallError(f"{problem}: is its file system mounted here? Nothing was kept")
        if installation.user_software.state == GONE:
            say(f"Warning: the user software of {installation.module} is missing, so it is not in this copy")
        if installation.user_software.state == PACKED:
            own.discard(root / names.USER_SOFTWARE_DIRECTORY)
        elif (root / names.USER_SOFTWARE_UNPACKED).exists():
            own.add(root / names.USER_SOFTWARE_UNPACKED)
        return str(removal.copy_out(own, folder)) if own else ""


def restore(installation: Installation, folder: Path, *, say: Callable[[str], None]) -> None:
    """Put back what `keep` has copied, whole or not at all; a run that was killed is finished by the next one.

    The installation has the same Python and name of its virtual environment, and users have nothing there. `say` is
    called with one line for each part.

    Raises:
        InstallError: it does not fit, or is not complete; nothing was changed.
    """
    folder = Path(os.path.realpath(folder))
    kept, root = read_record(folder), installation.root
    with os_errors(InstallError, f"'{folder}' can't be read"):
        writers = other_writers(folder) or other_writers(folder / RECORD)
    if writers:
        say(f"Warning: {writers} may have changed what is in '{folder}', and it runs as you from now on")
    _check_fits(installation, kept, folder)
    with hold_lock(installation.space.lock(root)), user_software_lock(root):
        there = [name for name in kept.tops if _has(root, name, kept)]
        stage = root / _STAGE
        _check_room(installation, there)
        try:
            remove_tree(stage)
            stage.mkdir()
            for name in (name for name in kept.tops if name not in there):
                say(f"copying {name}")
                copy_below(folder, name, stage / name)
                if not _has(stage, name, kept):
                    raise InstallError(
                        f"'{folder / name}' is not as it was when it was kept: use another backup. Nothing was changed"
                    )
            for name in sorted(kept.tops, key=lambda name: (_LAST.index(name) + 1 if name in _LAST else 0, name)):
                if name not in there:
                    if name == names.USER_SOFTWARE_DIRECTORY and os.path.lexists(root / name):
                        (root / name).rename(stage / "untouched")
                    (stage / name).rename(root / name)
            if names.USER_SOFTWARE_DIRECTORY not in kept.tops and os.path.lexists(root / names.USER_SOFTWARE_DIRECTORY):
                (root / names.USER_SOFTWARE_DIRECTORY).rename(stage / "untouched")
        except OSError as error:
            raise InstallError(f"restoring '{folder}' to '{root}' failed: {error}. Try again") from error
        finally:
            with contextlib.suppress(OSError):
                remove_tree(stage)
    for line in refresh_commands(root):
        say(line)


def _check_fits(installation: Installation, kept: Kept, folder: Path) -> None:
    manifest = installation.manifest
    pairs = (("Python", kept.python_version, manifest.python_version), ("venv", kept.venv, manifest.venv))
    for what, then, now in pairs:
        if then != now:
            raise InstallError(
                f"'{folder}' was kept of {kept.module} with {what} '{then}', and {installation.module} has '{now}': "
                f"install its packages anew with carry-over and the lists in that folder. Nothing was changed"
            )


def _check_room(installation: Installation, there: list[str]) -> None:
    """Refuse an installation with user software that the copy does not have."""
    root = installation.root
    own = [path.name for path in Removal(installation, say=lambda _line: None).users_own]
    directory = root / names.USER_SOFTWARE_DIRECTORY
    if os.path.lexists(directory) and not is_untouched(directory, venv=installation.manifest.venv):
        own.append(names.USER_SOFTWARE_DIRECTORY)
    others = sorted({*own} - {*there})
    if others:
        raise InstallError(
            f"'{root}' has user software ({', '.join(others)}), which would be lost: move user-software* "
            "elsewhere first. Nothing was changed"
        )


def _has(top: Path, name: str, kept: Kept) -> bool:
    """Return whether a folder has one of the kept names with exactly what was kept."""
    wanted = {path: what for path, what in kept.files.items() if path.partition("/")[0] == name}
    try:
        return contents(top, name) == wanted
    except OSError:
        return False
