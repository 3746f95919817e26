"""The programs that an image is for, and their commands, read from the databases of its package managers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sifmod.image import system
from sifmod.image.files import ImageFiles
from sifmod.image.notes import control_fields, json_object
from sifmod.image.rpm import RpmPackage, rpm_packages

Files = ImageFiles[Any]

CONDA, DPKG, RPM = "conda", "dpkg", "rpm"
# Where images of BioContainers have their conda environment.
BIOCONTAINERS = "/usr/local"

MOST_COMMANDS = 5_000  # of one image
_MOST_PACKAGES = 2_000
_METADATA = 16 << 20  # bytes of one package of conda, which lists its files
_LIST = 4 << 20  # bytes of one list of files of dpkg
_DATABASE = 32 << 20  # bytes
# Folders of programs, however PATH and package managers spell them.
_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
# Programs that are many: each link to one is a command of the system.
_MANY_IN_ONE = frozenset({"busybox", "toybox", "coreutils"})
_BASE_PRIORITIES = frozenset({"required", "important", "standard"})
# Sections of Debian's archive whose packages are installed to build or to run a program.
_SUPPORTING = frozenset(
    {"admin", "comm", "debug", "devel", "doc", "editors", "httpd", "introspection", "java", "javascript", "kernel"}
    | {"libdevel"}
    | {"libs", "localization", "mail", "metapackages", "misc", "net", "oldlibs", "otherosfs", "perl", "php", "python"}
    | {"ruby", "rust", "shells", "translations", "utils", "vcs", "web", "zope"}
)


@dataclass(frozen=True)
class Command:
    """One command of an image. A name has any characters but a slash; the package is empty if none has the command."""

    name: str
    path: str
    package: str = ""


@dataclass(frozen=True)
class Package:
    """A package that somebody chose to install, with its commands."""

    name: str
    version: str  # its version, as its authors write it
    manager: str  # `conda`, `dpkg` or `rpm`
    origin: str = ""  # the channel of conda; empty for other package managers
    summary: str = ""  # a line on what it is
    homepage: str = ""  # its address
    commands: tuple[Command, ...] = ()  # its commands in PATH
    is_supporting: bool = False  # whether such packages are usually installed for another program, as compilers are


@dataclass(frozen=True)
class Programs:
    """What programs an image is for."""

    # the packages that somebody chose, with commands, in the order of their names or of the choice
    packages: tuple[Package, ...] = ()
    # commands in PATH that no package has, or that only the image's own build has put there
    commands: tuple[Command, ...] = ()
    is_biocontainer: bool = False  # whether the packages are those of a conda environment in `/usr/local`
    unread: str = ""  # why a database of packages can't be read; empty if it can


def find_programs(files: Files) -> Programs:
    """Return what programs an image is for.

    These are the packages that conda notes as requested, or else those that dpkg or RPM notes as installed by hand, or
    that came after the base and that no other needs; without such packages the commands in PATH that no package has.
    """
    path = system.environment(files).get("PATH", system.DEFAULT_PATH).split(":")
    folders = _Folders(files, [one for one in path if one.startswith("/")])
    for folder in folders.path:
        prefix = posixpath.dirname(folder.rstrip("/")) or "/"
        packages = tuple(_of_conda(files, prefix, folders))
        if packages:
            return Programs(packages=packages, is_biocontainer=prefix == BIOCONTAINERS)
    rpms, unread = rpm_packages(files)
    by_hand = (*_of_dpkg(files, folders), *_of_rpm(rpms, folders))
    if any(not one.is_supporting for one in by_hand):
        return Programs(packages=by_hand, unread=unread)
    owned = folders.programs([*_all_of_dpkg(files), *(path for one in rpms for path in one.files), *_all_of_apk(files)])
    return Programs(packages=by_hand, commands=tuple(folders.others(owned)), unread=unread)


class _Folders:
    """The folders of PATH in an image."""

    def __init__(self, files: Files, path: list[str]) -> None:
        self.path = path
        self._files = files
        resolved = {folder: files.resolved(folder) for folder in (*path, *_FOLDERS)}
        self._places = {**{place: place for place in resolved.values()}, **resolved}
        self._searched = {resolved[folder] for folder in path} - {""}

    def programs(self, paths: Iterable[str]) -> set[str]:
        """Return the paths that are in folders of programs, without links in the folder."""
        split = (posixpath.split(path) for path in paths)
        return {f"{self._places[folder]}/{name}" for folder, name in split if self._places.get(folder)}

    def commands(self, paths: Iterable[str], package: str) -> tuple[Command, ...]:
        """Return the commands among the files of a package."""
        commands_by_name: dict[str, Command] = {}
        for path in paths:
            folder, name = posixpath.split(path)
            is_in_path = self._places.get(folder) in self._searched and name not in ("", ".", "..")
            if is_in_path and name not in commands_by_name and self._files.is_program(path):
                commands_by_name[name] = Command(name, path, package)
                if len(commands_by_name) >= MOST_COMMANDS:
                    break
        return tuple(commands_by_name[name] for name in sorted(commands_by_name))

    def others(self, owned: set[str]) -> Iterator[Command]:
        """Yield the commands that are neither among these files, nor links to one."""
        seen: set[str] = set()
        for folder in self.path:
            for name in self._files.names(folder):
                path = f"{folder.rstrip('/')}/{name}"
                if name in seen or f"{self._places[folder]}/{name}" in owned:
                    continue
                target = self._files.resolved(path)
                if posixpath.basename(target) in _MANY_IN_ONE or target in owned or not self._files.is_program(path):
                    continue
                seen.add(name)
                yield Command(name, path)
                if len(seen) >= MOST_COMMANDS:
                    return


def _of_conda(files: Files, prefix: str, folders: _Folders) -> Iterator[Package]:
    """Yield the packages of a conda environment that somebody asked for; else those that no other one needs."""
    names = [name for name in files.names(f"{prefix}/conda-meta") if name.endswith(".json")][:_MOST_PACKAGES]
    if not names:
        return
    specs = _requested_in_history(files.text(f"{prefix}/conda-meta/history"))
    notes = {}
    for name in names:
        # NAME-VERSION-BUILD.json: the notes of all others need not be read if the history says what was wanted
        if not specs or name.rsplit("-", 2)[0] in specs:
            note = json_object(files.text(f"{prefix}/conda-meta/{name}", limit=_METADATA))
            if isinstance(note.get("name"), str):
                notes[str(note["name"])] = note
    requested = specs or [name for name, note in notes.items() if _spec_name(note.get("requested_spec"))]
    needed = {_spec_name(spec) for note in notes.values() for spec in _texts(note.get("depends"))}
    for name in dict.fromkeys(requested or sorted({*notes} - needed)):
        note = notes.get(name, {})
        commands = folders.commands([f"{prefix.rstrip('/')}/{path}" for path in _texts(note.get("files"))], name)
        if commands:
            channel = str(note.get("channel", "")).rstrip("/")
            origin = next(
                (one for one in reversed(channel.split("/")) if not re.fullmatch(r"noarch|linux-.*", one)), ""
            )
            yield Package(name, str(note.get("version", "")), CONDA, origin=origin, commands=commands)


def _requested_in_history(text: str) -> list[str]:
    """Return the names of packages that were asked for, in order, from the `history` of conda."""
    requested: dict[str, None] = {}
    for line in re.findall(r"^# (?:update|install) specs: (.*)$", text, re.M)[-100:]:
        specs = json_object(f'{{"specs": {line}}}'.replace("'", '"')).get("specs")
        requested.update(dict.fromkeys(filter(None, map(_spec_name, _texts(specs)))))
    return list(requested)


def _spec_name(spec: object) -> str:
    """Return the name in a spec such as `bioconda::samtools>=1.9`; empty if there is none."""
    match = re.match(r"(?:[^\s:]+::)?([A-Za-z0-9_.-]+)", spec) if isinstance(spec, str) else None
    return match[1] if match else ""


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _of_dpkg(files: Files, folders: _Folders) -> Iterator[Package]:
    """Yield the packages that apt has not installed for others; without apt's notes, those that no other one needs."""
    installed = {one["Package"]: one for one in system.dpkg_packages(files)}
    states = files.text("/var/lib/apt/extended_states", limit=_DATABASE).split("\n\n")
    automatic = {one.get("Package", "") for one in map(control_fields, states) if one.get("Auto-Installed") == "1"}
    if not automatic:
        automatic = {
            name
            for one in installed.values()
            for key in ("Depends", "Pre-Depends", "Recommends")
            for name in re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", one.get(key, ""))
        }
    for name in sorted(installed)[:_MOST_PACKAGES]:
        one = installed[name]
        if name in automatic or one.get("Essential") == "yes" or one.get("Priority", "") in _BASE_PRIORITIES:
            continue
        lists = (
            f"/var/lib/dpkg/info/{name}{architecture}.list" for architecture in ("", f":{one.get('Architecture', '')}")
        )
        paths = next((text for text in (files.text(path, limit=_LIST) for path in lists) if text), "").splitlines()
        commands = folders.commands(paths, name)
        if commands:
            section = one.get("Section", "").rpartition("/")[2]
            yield Package(
                name,
                _upstream(one.get("Version", "")),
                DPKG,
                summary=one.get("Description", ""),
                homepage=one.get("Homepage", ""),
                commands=commands,
                is_supporting=section in _SUPPORTING,
            )


def _upstream(version: str) -> str:
    """Return the authors' part of a version of Debian (deb-version(7)): `1:2.1+dfsg-3+b1` is 2.1."""
    version = re.sub(r"^\d+:", "", version)
    version = version.rpartition("-")[0] or version
    return re.sub(r"[+~.-](dfsg|ds|repack|really).*$", "", version).replace("~", "-")


def _all_of_dpkg(files: Files) -> Iterator[str]:
    for name in files.names("/var/lib/dpkg/info"):
        if name.endswith(".list"):
            yield from files.text(f"/var/lib/dpkg/info/{name}", limit=_LIST).splitlines()


def _all_of_apk(files: Files) -> Iterator[str]:
    """Yield the paths of all files of Alpine's packages: lines `F:FOLDER`, each followed by lines `R:NAME`."""
    folder = ""
    for key, value in re.findall(r"^([FR]):(.*)$", files.text("/lib/apk/db/installed", limit=_DATABASE), re.M):
        if key == "F":
            folder = value
        else:
            yield f"/{folder}/{value}"


def _of_rpm(packages: tuple[RpmPackage, ...], folders: _Folders) -> Iterator[Package]:
    """Yield the packages that came after those of the base, and that no other package needs."""
    base = min((one.transaction for one in packages), default=0)
    needs = _needs(packages)
    for one in sorted(packages, key=lambda package: package.name):
        if one.transaction == base or any(needs.get(what, {one.name}) != {one.name} for what in one.provides):
            continue
        commands = folders.commands(one.files, one.name)
        if commands:
            yield Package(one.name, one.version, RPM, summary=one.summary, homepage=one.homepage, commands=commands)


def _needs(packages: tuple[RpmPackage, ...]) -> Mapping[str, set[str]]:
    """Return the names of the packages that need a capability."""
    needs: dict[str, set[str]] = {}
    for one in packages:
        for what in one.requires:
            needs.setdefault(what, set()).add(one.name)
    return needs
