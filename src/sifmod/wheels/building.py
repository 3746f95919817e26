"""Wheels for a module, built in a container of its image with compilers that the image lacks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Optional
from urllib.parse import urlsplit, urlunsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.gpu import VENDORS
from sifmod.errors import InstallError, SifmodError, os_errors
from sifmod.host.command import follow
from sifmod.host.files import chosen, content_of, copy_below, open_below
from sifmod.host.runtime import ContainerRuntime
from sifmod.host.writing import scratch_folder, whole_file
from sifmod.install.pip import pip_settings, scratch_binds
from sifmod.installed.installation import Installation
from sifmod.usersoftware.layers import layer_binds
from sifmod.usersoftware.state import DIRECTORY, PACKED
from sifmod.wheels.repository import clone
from sifmod.wheels.tools import WITH, Place, look_for_compilers, tools_for

# What programs that build read. The paths of compilers are the host's, and do not count in the container.
_BUILD_VARIABLES = (
    *("CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS", "CMAKE_BUILD_PARALLEL_LEVEL", "MAX_JOBS"),
    *("SETUPTOOLS_SCM_PRETEND_VERSION", *(vendor.built_for for vendor in VENDORS.values())),
)
_ARCHIVE = re.compile(r"\.(tar\.(gz|bz2|xz)|tgz|zip)$")
_WHEEL = re.compile(r"\.whl(#.*)?$")
_OF_GIT = re.compile(r"\.git(@[^/]*)?(#.*)?$")
_REVISION = re.compile(r"(?!-)[A-Za-z0-9._/+-]+")
_SUBDIRECTORY = re.compile(r"(?!\.\.?(/|$))[A-Za-z0-9._+-]+(/(?!\.\.?(/|$))[A-Za-z0-9._+-]+)*")
_SCHEMES = ("file", "http", "https", "ssh")
_FORMS = (
    "write NAME, NAME==VERSION, the path of a source or of an archive, or git+https://HOST/PATH@REVISION "
    "(also git+ssh and git+file)"
)
# Of the programs that a source needs only while it lies in somebody's folder.
_LEFT_OUT = ("__pycache__", ".venv", ".tox", ".nox", "*.egg-info")


@dataclass(frozen=True)
class Source:
    """What a wheel is built from."""

    requirement: str = ""  # a requirement for pip; empty for a path or a repository
    path: Optional[Path] = None  # a folder or an archive of this host
    repository: str = ""  # the address of a git repository
    revision: str = ""  # its branch, tag or commit; empty for the default branch
    subdirectory: str = ""  # the folder of the source in it


def source_of(text: str) -> Source:
    """Return what a requirement names; SifmodError if it is of no form that can be built."""
    # pip's own form of a name beside an address
    address = re.sub(r"^[A-Za-z0-9._-]+(\[[A-Za-z0-9._, -]*\])?\s*@\s*(?=git\+)", "", text.strip())
    if address.startswith("git+"):
        return _repository(address)
    shown = re.sub(r"//[^/]*@", "//...@", text)  # without a password
    if _WHEEL.search(text):
        raise SifmodError(f"{shown!r} names a wheel, which is not built again: install it with pip")
    if "://" in text:
        if _OF_GIT.search(text):
            raise SifmodError(f"{shown!r} names a git repository: put git+ in front of its address")
        remedy = "download it, and name the file; if it is a git repository, put git+ in front of its address"
        raise SifmodError(f"{shown!r} names an address: {remedy}")
    if text.startswith((".", "/", "~")) or "/" in text or _ARCHIVE.search(text):
        path = chosen(Path(text).expanduser())
        with os_errors(SifmodError, f"'{text}' can't be looked at"):
            if path.is_symlink():
                if path.lstat().st_uid != os.geteuid():
                    raise SifmodError(f"'{text}' is another user's link, which may be changed: name what it leads to")
                path = chosen(path.parent / path.readlink())
        if path.is_dir() and not _is_project(path):
            raise SifmodError(f"'{text}' has neither pyproject.toml nor setup.py: name the folder of a Python project")
        if path.is_dir() or (path.is_file() and _ARCHIVE.search(path.name)):
            return Source(path=path)
        raise SifmodError(f"'{text}' is neither a folder nor an archive of a source: {_FORMS}")
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise SifmodError(f"{text!r} is not a requirement: {_FORMS}") from error
    if wanted.url:
        raise SifmodError(f"{text!r} names a file: write its path, with ./ before it if it is in this folder")
    # whoever means the folder would run what anybody has put on an index by that name
    if not wanted.specifier and _is_project(Path(wanted.name)):
        raise SifmodError(
            f"'{text}' is a package of an index, and a folder here has that name. To build the folder: "
            f"./{wanted.name}. To build the package, name its version: {wanted.name}==VERSION"
        )
    return Source(requirement=str(wanted))


def _is_project(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("pyproject.toml", "setup.py"))


def _repository(address: str) -> Source:
    try:
        parts = urlsplit(address[len("git+") :])
        has_password = bool(parts.password)
    except ValueError as error:
        raise SifmodError(f"{address!r} is not an address: {_FORMS}") from error
    if parts.scheme not in _SCHEMES or parts.query or not re.fullmatch(r"[\x21-\x7e]+", address):
        raise SifmodError(f"{address!r} is not an address of a git repository: {_FORMS}")
    if has_password or (parts.username and parts.scheme != "ssh"):
        raise SifmodError(
            "an address with a password or a token is seen by all users of this host: keep it in git's credential "
            "helper, or use git+ssh"
        )
    path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    fragment = dict(one.partition("=")[::2] for one in parts.fragment.split("&") if one)
    subdirectory = fragment.pop("subdirectory", "")
    fragment.pop("egg", "")
    is_valid = not fragment and (not subdirectory or _SUBDIRECTORY.fullmatch(subdirectory))
    if not path.strip("/") or not is_valid or ("@" in parts.path and not _REVISION.fullmatch(revision)):
        raise SifmodError(f"{address!r} is not an address of a git repository: {_FORMS}")
    repository = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    return Source("", None, repository, revision, subdirectory)


def wheels_folder(module: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's wheels for a module, where the pip and the uv of the module look."""
    return Path(environ.get("HOME") or "/", names.WHEELS, module)


def looks_for_wheels(installation: Installation) -> bool:
    """Return whether commands of an installation look into the user's folder: those of earlier sifmods do not."""
    try:
        return b"lend_wheels()" in content_of(installation.root / "share" / "lend.sh")
    except OSError:
        return False


def build_wheels(
    installation: Installation,
    sources: Sequence[Source],
    folder: Path,
    runtime: ContainerRuntime,
    *,
    with_image: Optional[Path] = None,
    is_isolated: bool = True,
    say: Callable[[str], object],
    environ: Mapping[str, str],
) -> tuple[Path, ...]:
    """Build wheels, without those of what they require, and return their paths.

    What runs is the source's own program. It sees the image, the user software, and what pip is set to use, and writes
    to a temporary folder alone. `with_image` has compilers and the module's Python; None is the module's own image. If
    it is isolated, pip builds each wheel with tools of its own, and not with the packages of the module.

    Raises:
        SifmodError: a source, a compiler or Python's headers are missing, or a build failed.
    """
    place = _place(installation, runtime)
    found = look_for_compilers(place)
    if with_image:
        own, place = found, replace(place, image=with_image)
        try:
            found = look_for_compilers(place)
        except InstallError as error:
            raise InstallError(
                f"'{with_image}' has no Python of {installation.module}: name an image that is built from the module's "
                f"({error})"
            ) from error
        if replace(found, missing=()) != replace(own, missing=()):
            raise InstallError(
                f"'{with_image}' has {found.title}, and {installation.module} has {own.title}: a wheel that is built "
                "there may not work here. Name an image that is built from the module's"
            )
        if found.missing:
            raise InstallError(f"'{with_image}' lacks {found.needs}: name another image")
    if found.missing:
        tools = tools_for(place, found, installation.root, say=say, environ=environ)
        place = replace(place, overlay=("--overlay", f"{tools}:ro"))
        try:
            still = look_for_compilers(place)
        except InstallError as error:
            raise InstallError(f"nothing can be laid over an image here ({error}): {WITH}") from error
        if still.missing:
            raise InstallError(f"the packages of the distribution of '{place.image.name}' lack {still.needs}")
    with scratch_folder("wheel") as scratch:
        wanted = [_brought(source, scratch, number, say, environ) for number, source in enumerate(sources, 1)]
        _run_pip(place, installation, wanted, scratch, is_isolated=is_isolated, say=say, environ=environ)
        return tuple(_kept(scratch / "wheels", folder))


def _place(installation: Installation, runtime: ContainerRuntime) -> Place:
    """Return the module's container with its user software, to which nothing can be written."""
    state, root = installation.user_software, installation.root
    binds = [Bind(str(root / "runscripts"), names.RUNSCRIPTS, "ro")]
    if state.state in (DIRECTORY, PACKED):
        is_packed = state.state == PACKED
        binds.append(
            Bind(
                str(state.packed if is_packed else state.directory),
                names.USER_SOFTWARE,
                "ro,image-src=/" if is_packed else "ro",
            )
        )
        binds += layer_binds([layer.path for layer in installation.layers if not layer.problem])
    return Place(runtime, installation.image, f"{names.RUNSCRIPTS}/conda-python-simple", tuple(binds))


def _brought(
    source: Source, scratch: Path, number: int, say: Callable[[str], object], environ: Mapping[str, str]
) -> str:
    """Return a requirement as pip in the container reads it, after its source was copied to where that sees it."""
    if source.requirement:
        return source.requirement
    target = scratch / "sources" / str(number)
    target.parent.mkdir(exist_ok=True)
    inside = f"/tmp/sources/{number}"  # noqa: S108 - in the container
    if source.repository:
        say(f"cloning {source.repository}")
        clone(source.repository, source.revision, target, say=say, environ=environ)
        return f"{inside}/{source.subdirectory}" if source.subdirectory else inside
    path = source.path or Path()
    is_archive = not path.is_dir()
    try:
        if is_archive:
            target.mkdir()
            copy_below(path.parent, path.name, target / path.name, follows=False)
        else:
            copy_below(path, "", target, left_out=_LEFT_OUT)
    except OSError as error:
        raise InstallError(f"'{error.filename or path}' can't be copied to '{target}': {error.strerror}") from error
    return f"{inside}/{path.name}" if is_archive else inside


def _run_pip(
    place: Place,
    installation: Installation,
    wanted: Sequence[str],
    scratch: Path,
    *,
    is_isolated: bool,
    say: Callable[[str], object],
    environ: Mapping[str, str],
) -> None:
    settings, binds = pip_settings(scratch, (), environ)
    settings.update({name: environ[name] for name in _BUILD_VARIABLES if name in environ})
    if (installation.root / "runscripts" / names.CONSTRAINTS).is_file():
        # so that an extension is built with the image's numpy, not with a newer one
        settings["PIP_CONSTRAINT"] = f"{names.RUNSCRIPTS}/{names.CONSTRAINTS}"
    command = [place.python, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--use-pep517"]
    options = [] if is_isolated else ["--no-build-isolation"]
    words, variables = place.runtime.contained(
        place.image,
        [*command, *options, "--wheel-dir", "/tmp/wheels", "--", *wanted],  # noqa: S108 - in the container
        binds=[*scratch_binds(scratch), *binds, *place.binds],
        env=settings,
        options=place.overlay,
    )
    done = follow(words, on_line=say, on_silence=lambda: None, silence=60, env=variables)
    if done.status:
        header = re.search(r"fatal error: (\S+): No such file", done.stdout)
        name = f". The header {header[1]} is of a library that the image lacks: {WITH}" if header else ""
        raise InstallError(f"pip failed with exit status {done.status}, and says above why{name}")


def _kept(made: Path, folder: Path) -> list[Path]:
    """Copy the wheels of a build into a folder."""
    kept: list[Path] = []
    if made.is_symlink():  # the source's program has made it
        raise InstallError("the build has put a link in the place of its wheels: nothing was taken from there")
    for name in sorted(path.name for path in made.iterdir()) if made.is_dir() else ():
        try:
            project = parse_wheel_filename(name)[0]
        except InvalidWheelFilename:
            project = None
        if not project:  # packaging before 26 takes an empty one
            raise InstallError(f"the build has made {name!r}, which is not the name of a wheel")
        # for those for whom the folder is
        mode = folder.stat().st_mode & 0o666
        with open_below(made, name) as stream, whole_file(folder / name, mode=mode) as target:
            shutil.copyfileobj(stream, target)
        kept.append(folder / name)
    return kept
