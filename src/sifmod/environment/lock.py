"""Locks of Python packages, in the standard format pylock.toml (PEP 751) and uv's: written, and read for one Python.

Only wheels with a SHA-256 are taken: they are the same files in every build, and no code of a package runs to install
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional
from urllib.parse import unquote, urlsplit

import tomli_w
from packaging.markers import Environment, InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.pylock import Package, PackageDirectory, PackageWheel, Pylock, PylockSelectError, PylockValidationError
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidName, InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from sifmod.container.bind import is_bindable
from sifmod.environment.requirements import WHEEL_NAME, package_path, toml_of
from sifmod.environment.toollock import UV_LOCK, of_uv
from sifmod.errors import SifmodError
from sifmod.text.digest import SHA256


@dataclass(frozen=True)
class Platform:
    """The Python that a lock is for, as its own pip describes it; of the tags, the best is the first."""

    environment: Mapping[str, str]
    tags: Sequence[str]

    @property
    def python(self) -> str:
        """Version of the Python."""
        return self.environment.get("python_full_version", "")

    @property
    def title(self) -> str:
        """The platform in words."""
        words = (self.environment.get(name, "") for name in ("sys_platform", "platform_machine"))
        return f"Python {self.python} on {' '.join(words)}"


@dataclass(frozen=True)
class Locked:
    """One package of a lock: a wheel."""

    name: str  # normalized name of the package
    version: str
    sha256: str  # SHA-256 of the wheel, in hexadecimal
    url: str = ""  # where it is downloaded from; empty for a file of this host
    path: str = ""  # absolute path of that file; empty for a download

    @property
    def file_name(self) -> str:
        """File name of the wheel."""
        return (self.path or unquote(urlsplit(self.url).path)).rpartition("/")[2]

    @property
    def line(self) -> str:
        """The requirement for pip that only this file meets."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def locked_wheel(name: object, version: object, place: object, sha256: object) -> Locked:
    """Return a package of a lock, from values that are not trusted."""
    if not all(isinstance(value, str) for value in (name, version, place, sha256)):
        raise ValueError("its name, version, address and SHA-256 are not all texts")
    name, version, place, sha256 = str(name), str(version), str(place), str(sha256)
    try:
        key, number = canonicalize_name(name, validate=True), str(Version(version))
    except (InvalidName, InvalidVersion) as error:
        raise ValueError(str(error)) from error
    if not SHA256.fullmatch(sha256):
        raise ValueError("it has no SHA-256: lock it with hashes")
    if not re.fullmatch(r"[\x20-\x7e]+|/[^\x00-\x1f\x7f]+", place) or re.search(r"\{\{|\$\{", place):
        raise ValueError(f"its address '{place}' has characters that a definition file can't hold")
    parts = urlsplit(place)
    if parts.scheme in ("http", "https") and parts.hostname and " " not in place:
        # what a user logs in with at an index is nobody else's business
        found = Locked(key, number, sha256, url=parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
    elif place.startswith("/") or (parts.scheme == "file" and parts.netloc in ("", "localhost")):
        path = place if place.startswith("/") else unquote(parts.path)
        if not is_bindable(path) or "{{" in path:
            raise ValueError(f"the path '{path}' has characters that a container can't be given: rename it")
        found = Locked(key, number, sha256, path=path)
    else:
        raise ValueError(f"'{place}' is neither a file nor an address of https or http")
    if not WHEEL_NAME.fullmatch(found.file_name):
        raise ValueError(f"{found.file_name!r} is not the file name of a wheel: it has other characters")
    try:
        project, of_file, _build, _tags = parse_wheel_filename(found.file_name)
    except InvalidWheelFilename as error:
        raise ValueError(f"'{found.file_name}' is not a wheel ({error})") from error
    if project != key or of_file != Version(number):
        raise ValueError(f"'{found.file_name}' is the wheel of another package or version")
    return found


def lock_text(locked: Sequence[Locked], platform: Platform, *, base: str) -> str:
    """Return the text of a lock for one Python."""
    same = (f"{name} == '{platform.environment[name]}'" for name in ("sys_platform", "platform_machine"))
    lock = Pylock(
        lock_version=Version("1.0"),
        environments=[Marker(" and ".join(same))],
        requires_python=SpecifierSet(f"=={'.'.join(platform.python.split('.')[:2])}.*"),
        created_by="sifmod",
        packages=[_package(one) for one in locked],
        tool={"sifmod": {"base": base}},
    )
    return tomli_w.dumps(lock.to_dict())


def _package(one: Locked) -> Package:
    wheel = PackageWheel(name=one.file_name, url=one.url or None, path=one.path or None, hashes={"sha256": one.sha256})
    return Package(name=canonicalize_name(one.name), version=Version(one.version), wheels=[wheel])


def read_lock(path: Path, platform: Platform) -> tuple[Locked, ...]:
    """Return the packages that a lock has for one Python."""
    what = "of uv" if path.name == UV_LOCK else "in the format pylock.toml"
    try:
        tables = toml_of(path)
        lock = Pylock.from_dict(of_uv(path, tables, platform.environment) if path.name == UV_LOCK else tables)
        tags = [Tag(*parts) for parts in (text.split("-") for text in platform.tags) if len(parts) == 3]
        selected = list(lock.select(environment=_environment(platform), tags=tags))
    except PylockSelectError as error:
        raise SifmodError(
            f"the lock '{path}' is not for the base's {platform.title}: {error}. Lock the packages for it, or choose "
            "another base"
        ) from error
    except (
        *(PylockValidationError, InvalidMarker, InvalidSpecifier, InvalidVersion, InvalidWheelFilename),
        *(UndefinedEnvironmentName, ValueError, TypeError, LookupError, AttributeError, StopIteration, RecursionError),
    ) as error:
        raise SifmodError(f"'{path}' is not a lock {what}: {error}") from error
    return tuple(_locked(path, package, source) for package, source in selected)


def _environment(platform: Platform) -> Environment:
    environment: Any = dict(platform.environment)
    return environment  # type: ignore[no-any-return]


def _locked(path: Path, package: Package, source: object) -> Locked:
    if isinstance(source, PackageDirectory):
        raise SifmodError(
            f"the lock '{path}' has {package.name} as a source folder, such as the project itself: write it without, "
            "as with 'uv export --no-emit-project', or make a wheel with 'pip wheel --no-deps', and lock that"
        )
    if not isinstance(source, PackageWheel):
        raise SifmodError(
            f"the lock '{path}' has no wheel of {package.name} that fits, only source code: make a wheel with "
            "'pip wheel --no-deps', and lock that"
        )
    place: Optional[str] = source.url
    if source.path:
        place = str((path.parent / source.path).absolute())
    version = str(package.version or parse_wheel_filename(source.filename)[1])
    try:
        found = locked_wheel(package.name, version, place, source.hashes.get("sha256", ""))
        return replace(found, path=str(package_path(Path(found.path), path.parent.absolute()))) if found.path else found
    except ValueError as error:
        raise SifmodError(f"the lock '{path}' has a package {package.name} that can't be taken: {error}") from error
