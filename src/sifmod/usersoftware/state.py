"""The state of an installation's user software: which copy is in use, its packages, and problems of the packed file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sifmod import names
from sifmod.container.spec import reinstalling
from sifmod.finding import PROBLEM, WARNING, Finding
from sifmod.host.files import content_of, open_plain, sha256_of
from sifmod.image import superblock
from sifmod.inside.installing import LOCK
from sifmod.inside.trees import SEEDED, links_out
from sifmod.text import quoting
from sifmod.text.digest import SHA256
from sifmod.text.package import package_of
from sifmod.usersoftware.tree import dangling_link, packages_in, packed_is_active

NONE = "none"  # the module has no user software
DIRECTORY = "directory"
PACKED = "packed"
DAMAGED = "damaged"  # the packed file can't be used, and there is no directory
GONE = "gone"  # neither directory nor packed file

# What to do about `links_out`.
_REPLACE_LINK = "replace the link by the folder itself; to keep all of it elsewhere, make 'user-software' the link"

# What to do if the directory has what the packed file in use lacks.
PACK_AGAIN = "if it is needed, pack it again with: make-squashfs --replace"

_UNREADABLE = "it can't be read"

# What a virtual environment contains before anything is installed into it: venv of Python 3.9 to 3.13 (tree.py).
_UNTOUCHED = {
    ".": re.compile(rf"bin|include|lib|lib64|pyvenv\.cfg|\.gitignore|\.lock|{re.escape(LOCK)}"),
    "bin": re.compile(names.SEEDED_COMMANDS),
    "include": re.compile(r"python3[0-9.]*t?"),
    "lib": re.compile(r"python3[0-9.]*t?"),
}
_UNTOUCHED_PACKAGES = re.compile(
    rf"({'|'.join(SEEDED)})(-.*)?|pkg_resources|_distutils_hack|distutils-precedence\.pth|_image\.pth|_below\.pth|easy_install\.py"
    r"|__pycache__"
)


@dataclass(frozen=True)
class UserSoftware:
    """The user software of one installation."""

    state: str  # which copy is in use: `none`, `directory`, `packed`, `damaged` or `gone`
    directory: Path  # path of the directory, in use if the state is `directory`
    packed: Path  # path of the packed file, in use if the state is `packed`
    has_directory: bool  # whether the directory exists, in use or not
    has_packed: bool  # whether the packed file exists, in use or not
    packed_problem: str  # why the packed file can't be used; empty if it can, or does not exist
    # `name==version` of the packages that users installed, sorted; of a packed file, from its list
    packages: tuple[str, ...]
    # a sentence for each folder of a virtual environment in the directory that is a link out of it
    links_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the copy in use; needs a walk through the directory unless it is packed."""
        if self.state == PACKED:
            return self.packed.stat().st_size
        return tree_size(self.directory) if self.state == DIRECTORY else 0

    @property
    def packed_remedy(self) -> str:
        """What to do about `packed_problem`."""
        packed = quoting.shell(self.packed)
        if self.packed_problem.startswith(_UNREADABLE):
            return f"its owner can allow it with: chmod ug+r {packed}"
        return f"rm {packed}, then make-squashfs" if self.has_directory else self.restoring

    @property
    def has_previous(self) -> bool:
        """Whether `make-squashfs --rollback` can put back the packed file before the last one."""
        return self.packed.with_name(names.USER_SOFTWARE_PREVIOUS).is_file()

    @property
    def restoring(self) -> str:
        """How to replace a packed file that is damaged, or not the right one: a reinstall keeps it as it is."""
        if self.has_directory:
            return "pack the directory again with: make-squashfs --replace"
        if self.has_previous:
            return "restore the packed file before it with: make-squashfs --rollback"
        aside = f"mv {quoting.shell(self.packed)} elsewhere"
        again = reinstalling(self.packed.parent)
        return f"restore it from a backup, or begin with new user software: {aside}, then {again}"


def problems(software: UserSoftware) -> Iterator[Finding]:
    """Yield what keeps containers from starting, or from seeing all that users have installed."""
    topic = "user software"
    if software.packed_problem:
        what = f"'{software.packed}' can't be used: {software.packed_problem}"
        is_replaced = software.state == DIRECTORY
        why = (
            "the directory is used instead" if is_replaced else "containers do not start, and its packages are missing"
        )
        yield Finding(WARNING if is_replaced else PROBLEM, topic, what, why, software.packed_remedy)
    if software.state == GONE:
        link = dangling_link(software.directory.parent)
        what = link or f"neither '{software.directory}' nor '{software.packed}' exists"
        remedy = f"make it again, without your packages: {reinstalling(software.directory.parent)}"
        listed = software.packed.with_name(names.USER_SOFTWARE_LIST)
        if listed.is_file():
            remedy += f". Then load the module, and install them again: carry-over {quoting.shell(listed)}"
        if software.has_previous:
            remedy = f"use the packed file before the last one again: make-squashfs --rollback. Otherwise {remedy}"
        if link:
            remedy = f"mount its file system on this node; if the user software is lost, remove the link, then {remedy}"
        yield Finding(PROBLEM, topic, what, "containers do not start", remedy)
    for sentence in software.links_out:
        why = "packages are missing where containers do not see the target, and packing would lose them"
        yield Finding(PROBLEM, topic, sentence, why, _REPLACE_LINK)


def sum_findings(software: UserSoftware) -> Iterator[Finding]:
    """Yield what is wrong with the packed file in use by the SHA-256 that was recorded; reads all of it."""
    record = software.packed.with_name(names.USER_SOFTWARE_SHA256)
    if software.state == PACKED:
        remedy = f"{software.restoring}. If you have put it there, type: rm {quoting.shell(record)}"
        yield from damage("user software", software.packed, record, remedy=remedy)


def damage(topic: str, packed: Path, record: Path, *, remedy: str) -> Iterator[Finding]:
    """Yield what is wrong with a packed file by the SHA-256 in a record, if there is one; reads all of it."""
    recorded = sums_in(record)
    if not recorded:
        return
    try:
        digest = sha256_of(packed)
    except OSError as error:
        why = "packages in it are lost"
        yield Finding(PROBLEM, topic, f"'{packed}' can't be read: {error.strerror}", why, remedy)
        return
    if digest not in recorded:
        what = f"'{packed}' has the SHA-256 {digest}, but another one was recorded when it was packed"
        yield Finding(PROBLEM, topic, what, "it is damaged, or not the same file", remedy)


def user_software(root: Path, *, venv: str) -> UserSoftware:
    """Return the state of an installation's user software, by the same rule as its scripts; without a venv none."""
    directory, packed = root / names.USER_SOFTWARE_DIRECTORY, root / names.USER_SOFTWARE_PACKED
    has_directory, has_packed = directory.is_dir(), packed.is_file()
    problem = packed_problem(packed) if has_packed else ""
    is_active = packed_is_active(root)
    if is_active and not problem:
        state = PACKED
    elif has_directory:
        state = DIRECTORY
    elif is_active:
        state = DAMAGED
    else:
        state = GONE if venv else NONE
    packages: tuple[str, ...] = ()
    astray: tuple[str, ...] = ()
    if state == DIRECTORY:
        astray = tuple(f"in '{directory}', {sentence}" for sentence in links_out(str(directory)))
        packages = pins(packages_in(directory))
    elif state == PACKED:
        packages = listed(root / names.USER_SOFTWARE_LIST)
    return UserSoftware(state, directory, packed, has_directory, has_packed, problem, packages, astray)


def packed_problem(path: Path) -> str:
    """Return why a packed file can't be used; empty if it can.

    It must be readable, start with the magic number of SquashFS, and be as long as its superblock says. The scripts
    and the module follow the same rule (tests/unit/render/test_packed_file.py).
    """
    try:
        with open_plain(path) as stream:
            head = stream.read(superblock.SIZE)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        return f"{_UNREADABLE}: {error.strerror}"
    if not head:
        return "it is empty"
    field = head[superblock.LENGTH_AT : superblock.LENGTH_AT + 8]
    length = int.from_bytes(field, "little")
    if not head.startswith(superblock.MAGIC) or len(field) < 8 or length < superblock.SIZE:
        return "it is not a SquashFS file"
    return f"it is truncated: {size} of {length} bytes" if length > size else ""


def sums_in(path: Path) -> frozenset[str]:
    """Return the SHA-256 in a record of make-squashfs; none if it can't be read, or an older one has written none."""
    try:
        text = content_of(path).decode(errors="replace")
    except OSError:
        return frozenset()
    return frozenset(line for line in text.split("\n") if SHA256.fullmatch(line))


def unowned(directory: Path) -> Iterator[Path]:
    """Yield what lies among the packages of user software in a directory and belongs to none, by their records.

    An installer that was ended leaves that behind. If a record can't be read, nothing is said of its folder.
    """
    for folder in sorted(directory.glob("venv/*/lib/python3*/site-packages")):
        entries = [name for name in _names(folder) if not _UNTOUCHED_PACKAGES.fullmatch(name)]
        try:
            records = [content_of(path) for path in folder.glob("*.dist-info/RECORD")]
            # of setuptools' own installs
            records += [
                re.sub(rb"(?m)^(.+)$", rb"\1\n\1.py", content_of(path)) for path in folder.glob("*/top_level.txt")
            ]
        except OSError:
            continue
        owned = {
            os.fsdecode(re.split(rb"[/,]", line, maxsplit=1)[0].strip(b'"'))
            for one in records
            for line in one.splitlines()
        }
        for name in entries:
            if name.endswith(".dist-info"):
                is_owned = (folder / name / "METADATA").is_file()
            else:
                is_owned = name in owned or name.endswith((".egg", ".egg-info", ".egg-link", ".pth"))
            if not is_owned:
                yield folder / name


def is_untouched(directory: Path, *, venv: str) -> bool:
    """Return whether a user software directory contains only the virtual environment that an install makes."""
    top = directory / "venv" / venv
    if _names(directory) != ["venv"] or _names(directory / "venv") != [venv]:
        return False
    patterns = {top / folder: pattern for folder, pattern in _UNTOUCHED.items()}
    patterns.update(dict.fromkeys(top.glob("lib/python3*"), re.compile("site-packages")))
    patterns.update(dict.fromkeys(top.glob("lib/python3*/site-packages"), _UNTOUCHED_PACKAGES))
    return all(pattern.fullmatch(name) for folder, pattern in patterns.items() for name in _names(folder))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def tree_size(top: Path) -> int:
    """Return the size of all files below a directory, as `du --apparent-size` counts it; links are not followed."""
    return sum(_sizes(top))


def tree_files(top: Path) -> int:
    """Return the number of files and links below a directory."""
    return sum(1 for _size in _sizes(top))


def _sizes(top: Path) -> Iterator[int]:
    pending = [str(top)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False).st_size
        except OSError:  # unreadable, or removed meanwhile: not counted
            continue


def listed(path: Path) -> tuple[str, ...]:
    """Return `name==version` of each package in a list that make-squashfs has written; none if it can't be read."""
    try:
        return pins(content_of(path).decode(errors="replace"))
    except OSError:
        return ()


def pins(text: str) -> tuple[str, ...]:
    """Return `name==version` of each package in a list of user software, wherever it came from."""
    return tuple("==".join(package) for package in map(package_of, text.splitlines()) if package)
