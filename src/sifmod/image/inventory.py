"""Every package that an image has by the notes of its package managers, and what identifies it elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from packaging.utils import canonicalize_name

from sifmod.image import system
from sifmod.image.files import ImageFiles
from sifmod.image.python import ImagePython, conda_licences
from sifmod.image.rpm import rpm_packages
from sifmod.text.package import NAME
from sifmod.text.size import counted

Files = ImageFiles[Any]

# The types of package URLs (PURL, ECMA-427) that the package managers have.
DEB, RPM, APK, CONDA, PYPI = "deb", "rpm", "apk", "conda", "pypi"
_MOST_CHARACTERS = 200
_MOST_PACKAGES = 20_000  # TeX Live and two conda environments are 8,000
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:~^!*-]*")
_SOURCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.+-]*)(?: \(([A-Za-z0-9][A-Za-z0-9_.+:~-]*)\))?")  # deb-control(5)
_WORD = re.compile(r"[a-z0-9][a-z0-9_.-]*")


@dataclass(frozen=True)
class InstalledPackage:
    """One package."""

    manager: str  # `deb`, `rpm`, `apk`, `conda` or `pypi`
    name: str
    version: str  # its full version: with Debian's epoch and revision, or RPM's release
    architecture: str = ""  # processor architecture; empty if it is not noted
    epoch: int = 0  # RPM's epoch; 0 if it has none
    licence: str = ""  # its licence as its packagers write it; empty if it is not noted
    # Debian's or Alpine's source package that it was built from: `NAME` or, if it has another version than this
    # package, `NAME@VERSION`. Empty if it has the same name. Advisories are for source packages
    source: str = ""
    prefixes: tuple[str, ...] = ()  # prefixes of the Pythons that have it; empty for packages of the system


@dataclass(frozen=True)
class Inventory:
    """The packages of an image."""

    packages: tuple[InstalledPackage, ...]  # each package once, in order of manager, name, version and architecture
    distribution: str = ""  # identifier of the Linux distribution, such as `debian`; empty if there is none
    release: str = ""  # its version, such as `12`; empty if there is none
    missing: tuple[str, ...] = ()  # sentences on what is not in `packages`, although the image may have it


def find_inventory(files: Files, pythons: Iterable[ImagePython]) -> Inventory:
    """Return the packages that dpkg, RPM, apk, conda and pip have noted.

    Notes come from the image: one whose name or version no package manager accepts is counted, and left out.
    """
    rpms, unread = rpm_packages(files)
    noted = [*_of_system(files)]
    noted += [
        InstalledPackage(RPM, one.name, f"{one.version}-{one.release}", one.architecture, one.epoch, one.licence)
        for one in rpms
        if one.name != "gpg-pubkey"  # keys, which RPM keeps among the packages
    ]
    for python in pythons:
        noted += _of_python(files, python)
    right = [one for one in noted if _is_a_package(one)]
    missing = [f"{unread}: its packages are not listed"] if unread else []
    if len(right) < len(noted):
        wrong = len(noted) - len(right)
        are = "is" if wrong == 1 else "are"
        missing.append(f"{counted(wrong, 'package')} {are} noted without a valid name and version")
    packages = _merged(right)
    if len(packages) > _MOST_PACKAGES:
        missing.append(f"of {len(packages)} packages the first {_MOST_PACKAGES} are listed")
    release = system.os_release(files)
    return Inventory(
        packages=tuple(packages[:_MOST_PACKAGES]),
        distribution=_word(release.get("ID", "")),
        release=_word(release.get("VERSION_ID", "")),
        missing=tuple(missing),
    )


def _of_system(files: Files) -> Iterator[InstalledPackage]:
    for one in system.dpkg_packages(files):
        name, architecture = one["Package"], one.get("Architecture", "")
        yield InstalledPackage(DEB, name, one.get("Version", ""), architecture, source=_source(one.get("Source", "")))
    for one in system.apk_packages(files):
        name, source = one["P"], _source(one.get("o", ""))
        yield InstalledPackage(
            APK,
            name,
            one.get("V", ""),
            one.get("A", ""),
            licence=one.get("L", ""),
            source="" if source == name else source,
        )


def _of_python(files: Files, python: ImagePython) -> Iterator[InstalledPackage]:
    here = (python.prefix,)
    licences = conda_licences(files, python.prefix) if python.conda_packages else {}
    for name, version in python.conda_packages:
        yield InstalledPackage(CONDA, name, version, licence=licences.get((name, version), ""), prefixes=here)
    of_pip = dict(python.licences)
    for name, version in python.packages:
        yield InstalledPackage(PYPI, name, version, licence=of_pip.get(name, ""), prefixes=here)


def _source(noted: str) -> str:
    match = _SOURCE.fullmatch(noted) if len(noted) <= _MOST_CHARACTERS else None
    return "@".join(filter(None, match.groups())) if match else ""


def _is_a_package(one: InstalledPackage) -> bool:
    texts = (one.name, one.version, one.architecture)
    return (
        all(len(text) <= _MOST_CHARACTERS for text in texts)
        and bool(NAME.fullmatch(one.name) and _VERSION.fullmatch(one.version))
        and bool(not one.architecture or NAME.fullmatch(one.architecture))
    )


def _merged(packages: Iterable[InstalledPackage]) -> list[InstalledPackage]:
    """Return the packages in order; one that several Pythons have is one package."""
    found: dict[tuple[str, str, str, str], InstalledPackage] = {}
    for one in packages:
        name = canonicalize_name(one.name) if one.manager == PYPI else one.name
        key = (one.manager, name, one.version, one.architecture)
        before = found.get(key, one)
        prefixes = tuple(dict.fromkeys((*before.prefixes, *one.prefixes)))
        found[key] = replace(before, licence=before.licence or one.licence, prefixes=prefixes)
    return [found[key] for key in sorted(found)]


def _word(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS and _WORD.fullmatch(text) else ""
