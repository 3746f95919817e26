"""Who may change a file, or put another one where a path leads."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Callable

from sifmod.errors import InstallError
from sifmod.site.cache import FOREIGN, LINK, SHARED, UNUSABLE
from sifmod.text import quoting

_MOST_LINKS = 40


def problem_of_way(path: Path) -> str:
    """Return what lets others put their files where an absolute path leads, and where; empty if nothing does.

    It is the rule of modules and scripts for the site's caches and for folders on a node. From the top down, each
    folder and link is root's or the user's; what is not there is left out. One that others may write to has the sticky
    bit, and no link in it is followed. The last folder is the user's, who can write to it, and no link, and nobody else
    may write to it.
    """
    done, rest, links, shared = "", [*str(path).split("/")], 0, set[str]()
    while rest:
        part = rest.pop(0)
        if part == "..":
            done = done.rpartition("/")[0]
        if part in (".", "..") or (not part and done):
            continue
        name = f"{done}/{part}"
        try:
            status = os.lstat(name)
        except FileNotFoundError:
            return ""
        except OSError:
            return f"'{name}' {UNUSABLE}"
        others_write = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        is_link = stat.S_ISLNK(status.st_mode)
        is_last = not rest
        if is_link and (done in shared or links == _MOST_LINKS or is_last):
            return f"'{name}' {LINK}"
        if status.st_uid != os.geteuid() and (status.st_uid != 0 or is_last):
            return f"'{name}' {FOREIGN}"
        if is_link:
            target = os.readlink(name)  # noqa: PTH115 - a Path lacks what the text may end in
            links += 1
            done, rest = "" if target.startswith("/") else done, [*target.split("/"), *rest]
        elif is_last and not (stat.S_ISDIR(status.st_mode) and os.access(name, os.W_OK | os.X_OK)):
            return f"'{name}' {UNUSABLE}"
        elif others_write and (is_last or not status.st_mode & stat.S_ISVTX):
            return f"'{name}' {SHARED}"
        else:
            done = name if part else ""
            shared |= {done} if others_write else set()
    return ""


def other_writers(path: Path, *, follows: bool = True) -> str:
    """Return who but this user and root may change a file or folder, for a message, or ''; OSError if it is unseen.

    A link that is not followed counts as everybody's.
    """
    status = path.stat() if follows else path.lstat()
    if status.st_uid not in (os.geteuid(), 0):
        return f"its owner {_name_of(pwd.getpwuid, status.st_uid)}"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""  # others may add names there, and not change these
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"the group {_name_of(grp.getgrgid, status.st_gid)}"
    return ""


def everybody_may_change(path: Path) -> bool:
    """Return whether every user of the machine may change a file, or the names in a folder; False if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_protected = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    return bool(status.st_mode & stat.S_IWOTH) and not is_protected


def owner_of(path: Path) -> str:
    """Return the name of the user that a file belongs to, for a message."""
    try:
        return path.owner()
    except (KeyError, OSError):
        return "another user"


def no_permission(folder: Path, ask_owner: str) -> InstallError:
    """Return the message for a folder of somebody else's that this user may not change; `ask_owner` is the site's."""
    return InstallError(
        f"you may not write to '{folder}', which belongs to {owner_of(folder)}: for group write "
        f"permission, {ask_owner}; it is given with: chmod -R g+w {quoting.shell(folder)}. For all members of a group, "
        "install with: umask 002; eb --group-writable-installdir --set-gid-bit. Nothing was changed"
    )


def _name_of(look_up: Callable[[int], tuple[object, ...]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def _is_own_group(number: int) -> bool:
    """Return whether a group is the one that distributions make for each user: of the same name, with no others."""
    user = _name_of(pwd.getpwuid, os.geteuid())
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user and not set(group.gr_mem) - {user}
