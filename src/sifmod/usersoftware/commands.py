"""The commands of user software on the host: links in `user-bin` to one launcher, made by `refresh-commands`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sifmod import names
from sifmod.errors import CommandError
from sifmod.host.command import LOOK_IN_CONTAINER, run

_TARGET = f"../{names.USER_COMMAND}"


def refresh_commands(installdir: Path) -> list[str]:
    """Make the links those of the user software in use.

    Returns:
        Lines for the user: commands of the host that are hidden now, or why it failed.
    """
    try:
        done = run([installdir / "bin" / "refresh-commands"], time_limit=LOOK_IN_CONTAINER)
    except CommandError as error:
        return [f"the commands of user software were not refreshed: {error}"]
    return done.last_lines.splitlines() if done.status or done.stderr else []


def remove_commands(installdir: Path) -> None:
    """Remove the links of an installation that no longer has user software, and the folder if nothing else is in it."""
    folder = installdir / names.USER_COMMANDS
    if folder.is_symlink() or not folder.is_dir():
        return
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _is_link(path):
                path.unlink()
        (folder / names.USER_COMMANDS_LOCK).unlink(missing_ok=True)
        folder.rmdir()


def others_among_commands(installdir: Path) -> tuple[Path, ...]:
    """Return what is in the folder of the links without being one, sorted."""
    folder = installdir / names.USER_COMMANDS
    if folder.is_symlink() or not folder.is_dir():
        return (folder,) if os.path.lexists(folder) else ()
    lock = folder / names.USER_COMMANDS_LOCK
    return tuple(sorted(path for path in folder.iterdir() if path != lock and not _is_link(path)))


def _is_link(path: Path) -> bool:
    return path.is_symlink() and str(path.readlink()) == _TARGET
