"""Compilers and headers for an image that lacks them: packages of its own distribution, laid over it for a build.

They are unpacked without root and packed into one file, which the runtime puts over the image as a read-only overlay.
The image itself is not copied, and what is built has its libc and its headers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from sifmod.container.bind import Bind
from sifmod.errors import CommandError, InstallError, os_errors
from sifmod.host.command import LOOK_IN_CONTAINER, run
from sifmod.host.owners import everybody_may_change, other_writers, problem_of_way
from sifmod.host.runtime import ContainerRuntime, answer_of
from sifmod.host.writing import put_in_place, scratch_folder
from sifmod.install.pip import network_settings
from sifmod.resources import program
from sifmod.text import quoting

_MISSING = {"cc": "a C compiler", "c++": "a C++ compiler", "headers": "the headers of its Python"}
# A distribution has headers for its own Python alone.
_OF_DISTRIBUTION = "/usr"
_NO_APT = 3  # of build-tools.sh
_LONGEST = 1000
_IN_USE = 86400  # seconds; no build takes so long
# What gets the same as build-tools.sh, for an image that is built from the module's, by the package manager.
_OF_RPM = "gcc gcc-c++ make git python3-devel"
_INSTALLING = {
    **{name: f"{name} install -y {_OF_RPM}" for name in ("dnf", "microdnf", "yum", "zypper")},
    "apk": "apk add build-base git python3-dev",
}
WITH = "name an image that is built from the module's and has them: --with IMAGE"


@dataclass(frozen=True)
class Place:
    """Where something is built: an image as a contained container sees it."""

    runtime: ContainerRuntime
    image: Path
    python: str  # the command that starts its Python
    binds: tuple[Bind, ...] = ()  # what the container sees beside it
    overlay: tuple[str, ...] = ()  # options that lay a packed file over it


@dataclass(frozen=True)
class Found:
    """The Python of an image, and what it lacks to build extensions."""

    python: str  # its full version
    prefix: str  # where it is installed
    libc: str  # name and version of its libc
    include: str  # the folder for its headers
    missing: tuple[str, ...]  # what it lacks, as `_MISSING` has it

    @property
    def needs(self) -> str:
        """What is missing, for a message."""
        return " and ".join(_MISSING[name] for name in self.missing)

    @property
    def title(self) -> str:
        """The Python, for a message."""
        return f"Python {self.python} in {self.prefix}, {self.libc or 'another libc'}"


def look_for_compilers(place: Place) -> Found:
    """Return which Python an image has, and what it lacks, or raise InstallError."""
    words, environ = place.runtime.contained(
        place.image, [place.python, "-I", "-"], binds=place.binds, options=place.overlay
    )
    what = f"the Python of {place.image.name}"
    answer = answer_of(words, what, stdin=program("compilers"), env=environ, time_limit=LOOK_IN_CONTAINER)
    try:
        told = json.loads(answer)
        texts = {name: told[name] for name in ("python", "prefix", "libc", "include")}
        missing = tuple(name for name in _MISSING if name in told["missing"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InstallError(f"{what} does not say what it has: {answer[:80]!r}") from error
    if not all(isinstance(text, str) and text.isprintable() and len(text) < _LONGEST for text in texts.values()):
        raise InstallError(f"{what} does not say what it has: {answer[:80]!r}")
    return Found(**texts, missing=missing)


def tools_for(
    place: Place, found: Found, root: Path, *, say: Callable[[str], object], environ: Mapping[str, str]
) -> Path:
    """Return the packed file with what an image lacks, made from packages of its distribution the first time.

    It is kept in the user's folder for caches, by the installation in `root`, the path by which its image is started
    and what the file system knows of it. Another user's manifest, which may claim any hash, is not asked.

    Raises:
        InstallError: the packages can't be had, or the file can't be made; the message says what to do instead.
    """
    if "headers" in found.missing and found.prefix != _OF_DISTRIBUTION:
        raise InstallError(
            f"the Python of '{place.image.name}' has no headers: there is no '{found.include}/Python.h', and its "
            f"distribution has them for a Python in {_OF_DISTRIBUTION} alone, and not in {found.prefix}. Ask who made "
            f"the image to keep them, or {WITH}"
        )
    version = re.match(r"\d+\.\d+", found.python)
    packages = [f"python{version[0]}-dev"] if version and "headers" in found.missing else []
    text = program("build-tools.sh")
    with os_errors(InstallError, f"'{place.image}' can't be read"):
        image = place.image.stat()
    identity = (str(place.image), image.st_dev, image.st_ino, image.st_size, image.st_mtime_ns)
    whose, key = (
        hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
        for parts in (os.path.realpath(root), (identity, packages, text))
    )
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/", ".cache"), "sifmod")
    if not cache.is_absolute() or re.search("[,:]", str(cache)):
        raise InstallError(
            f"compilers can't be kept in '{cache}', which must be absolute and without ',' and ':' for the runtime to "
            "lay them over an image: set XDG_CACHE_HOME to another folder"
        )
    packed = cache / f"build-tools-{whose}-{key}.squashfs"
    make_own(cache)
    if packed.is_file():
        packed.touch()
        return packed
    say(f"'{place.image.name}' lacks {found.needs}: getting compilers and git of its distribution, once for this image")
    with scratch_folder("tools") as scratch:
        words, variables = place.runtime.contained(
            place.image,
            ["/bin/sh", "-s", "--", *packages],
            binds=[Bind(str(scratch), "/tmp")],  # noqa: S108 - in the container
            env=network_settings(environ),
        )
        done = run(words, stdin=text, env=variables)
        if done.status:
            if done.status != _NO_APT:
                why, way = f"apt's last lines: {done.last_lines}", WITH
            elif done.stdout.strip() in _INSTALLING:
                manager = done.stdout.strip()
                why = f"that is done for Debian and Ubuntu alone, and this one has {manager}"
                way = (
                    "build an image with them, from a definition file with the lines: Bootstrap: localimage / From: "
                    f"{place.image} / %post / {_INSTALLING[manager]}; and name it: --with IMAGE"
                )
            else:
                why, way = "it has no apt", WITH
            raise InstallError(
                f"'{place.image.name}' lacks {found.needs}, which can't be had from its distribution ({why}): {way}"
            )
        tools = scratch / "tools"
        if tools.is_symlink() or not tools.is_dir():  # the image has made it
            raise InstallError(f"'{place.image.name}' has unpacked nothing that could be laid over it: {WITH}")
        _remove_left(cache, whose)
        _pack(tools, packed)
    return packed


def _pack(tools: Path, packed: Path) -> None:
    draft = packed.with_name(f".{packed.name}.{os.getpid()}")
    held = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        options = ["-quiet", "-no-progress", "-all-root", "-noappend", "-comp", "gzip", "-Xcompression-level", "1"]
        done = run(["mksquashfs", tools, draft, *options])
        if done.status:
            raise InstallError(f"'{packed}' can't be made; mksquashfs's last lines: {done.last_lines}")
        put_in_place(draft, packed)
    except CommandError as error:
        raise InstallError(f"'{packed}' can't be made: {error}. Use a host that has squashfs-tools") from error
    finally:
        draft.unlink(missing_ok=True)
        os.close(held)


def _remove_left(cache: Path, whose: str) -> None:
    """Remove an installation's files for images that it had, and drafts of runs that were killed.

    A build may go on with such a file for some hours, and a run that goes on holds a lock on its draft.
    """
    for path in cache.glob(f"build-tools-{whose}-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _IN_USE:
                path.unlink()
    for path in cache.glob(".build-tools-*"):
        with contextlib.suppress(OSError):
            held = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(held)


def other_writers_of(folder: Path) -> str:
    """Return who else may put wheels into a folder that others use too, for a message; empty if nobody may.

    Raises:
        InstallError: everybody may.
    """
    writers: dict[str, None] = {}
    place = folder.resolve()
    for path in (place, *place.parents):
        if everybody_may_change(path) or (path == place and path.stat().st_mode & stat.S_IWOTH):
            raise InstallError(
                f"'{folder}' can't be used: everybody may put files into '{path}', which programs of those who install "
                f"from there would run. Its owner can change that with: chmod o-w {quoting.shell(path)}"
            )
        writers[other_writers(path)] = None
    return ", ".join(filter(None, writers))


def make_own(folder: Path) -> None:
    """Make a folder, and refuse one in which others could put files: what is in it becomes programs.

    Raises:
        InstallError: it can't be made, or others may write to it, or to a folder above it.
    """
    problem = problem_of_way(folder)
    try:
        for path in reversed([path for path in (folder, *folder.parents) if not problem and not path.exists()]):
            path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InstallError(f"'{error.filename}' can't be made: {error.strerror}") from error
    problem = problem or problem_of_way(folder)
    if problem:
        raise InstallError(f"'{folder}' can't be used: {problem}")
