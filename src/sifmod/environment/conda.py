"""A conda environment from a file, in an image made from a base that has conda, mamba or micromamba.

The base's tool makes the environment once, in a contained container, to find out which packages it has. The lock is
conda's own: an explicit list of addresses with MD5 sums, which all three tools install without solving again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Optional, Union
from urllib.parse import unquote, urlsplit

from sifmod.container.bind import Bind, is_bindable
from sifmod.easyconfig.newimage import NewImage
from sifmod.easyconfig.proposal import Proposal, checked_name, checked_proposal
from sifmod.easyconfig.text import easyconfig_text, folded
from sifmod.environment.definition import WORK, Basis, basis, definition_text
from sifmod.environment.python import DEFAULT_NAME, DEFAULT_VERSION, Environment
from sifmod.environment.requirements import has_login, text_of
from sifmod.errors import ImageError, InstallError, SifmodError
from sifmod.host.command import LOOK_IN_CONTAINER
from sifmod.host.files import chosen
from sifmod.host.owners import other_writers
from sifmod.host.runtime import ContainerRuntime, find_runtime
from sifmod.host.writing import scratch_folder
from sifmod.install.pip import network_settings, pip_settings, scratch_binds
from sifmod.site.settings import Site
from sifmod.text.quoting import shell, without_templates
from sifmod.text.yaml import read_yaml

_EXPLICIT = "@EXPLICIT"
_NEITHER = f"is neither an environment.yml with dependencies nor a list with {_EXPLICIT}"
# Folders of channels by the name that the kernel has for a machine.
_SUBDIRS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le"}
_LARGEST = 10 * 1024 * 1024  # bytes of a file in conda-meta

# Prints the path of the first tool that the image has.
_FIND = """
PATH=$PATH:/usr/local/bin
for tool in micromamba mamba conda; do
    for path in "$(command -v $tool)" /opt/*/bin/$tool /opt/*/condabin/$tool /usr/local/*/bin/$tool; do
        if [ -x "$path" ]; then
            echo "$path"
            exit
        fi
    done
done
"""

# Makes the environment in the private /tmp. `env create` of conda and mamba has no --yes in all versions.
_MAKE = """
export HOME=/tmp CONDA_PKGS_DIRS=/tmp/pkgs MAMBA_ROOT_PREFIX=/tmp/root CONDA_ALWAYS_YES=1 MAMBA_ALWAYS_YES=1
cat >/tmp/environment.yml
case $1 in
    */micromamba) exec "$1" create --quiet --prefix /tmp/environment --file /tmp/environment.yml ;;
    *) exec "$1" env create --quiet --prefix /tmp/environment --file /tmp/environment.yml ;;
esac
"""

_POST = """\
    export CONDA_PKGS_DIRS=$TMPDIR/pkgs MAMBA_ROOT_PREFIX=$TMPDIR/root
    # packages of the host lie beside it now
    sed 's|^file:.*/|file://{work}/|' "$TMPDIR/lock.txt" >"$TMPDIR/explicit.txt"
    {tool} create --yes --quiet --prefix {prefix} --file "$TMPDIR/explicit.txt"
    rm -r {work}

%test
    {prefix}/bin/python3 --version
"""
# Its name is part of programs.
_FILE_NAME = re.compile(r"[A-Za-z0-9_.+!-]+\.(conda|tar\.bz2)")


@dataclass(frozen=True)
class CondaPackage:
    """One package of a lock: its URL, or a file of the host, and its MD5 sum, which is what explicit lists have."""

    url: str
    md5: str

    @property
    def file_name(self) -> str:
        """Its file name, such as `python-3.11.9-h12345_0.conda`."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def path(self) -> str:
        """Path of the file of the host; empty for a download."""
        parts = urlsplit(self.url)
        return unquote(parts.path) if parts.scheme == "file" else ""

    @property
    def line(self) -> str:
        """Its line in an explicit list."""
        return f"{self.url}#{self.md5}"


@dataclass(frozen=True)
class CondaSource:
    """A file that a conda environment is made from: an environment.yml, or an explicit list, and its folder.

    The text is an explicit list as it is; of an environment.yml its channels and dependencies, for the base's tool.
    Packages are taken from below the folder, and from channels that are folders of this host.
    """

    origin: str
    text: str
    name: str = ""
    folder: Path = Path()
    channels: tuple[Path, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the file was not read: nothing."""
        return ()

    def named(self, name: str, version: str) -> tuple[str, str]:
        """Return name and version of the module: the given ones, else the environment's name, else the defaults."""
        name, version = name or self.name or DEFAULT_NAME, version or DEFAULT_VERSION
        return checked_name("name", name), checked_name("version", version)

    @property
    def locked(self) -> Optional[tuple[CondaPackage, ...]]:
        """The packages of an explicit list; None for an environment.yml."""
        if not is_explicit(self.text):
            return None
        lines = [line.strip() for line in self.text.splitlines()]
        return tuple(
            _package(*line.rpartition("#")[::2], f"'{self.origin}', line {number}")
            for number, line in enumerate(lines, start=1)
            if line and not line.startswith(("#", "@"))
        )


def is_explicit(text: str) -> bool:
    """Return whether a text is an explicit list of conda, which a line of its own says."""
    return _EXPLICIT in (line.strip() for line in text.splitlines())


def read_conda(path: Path) -> CondaSource:
    """Return a file that describes a conda environment."""
    text, folder = text_of(path), chosen(path).parent
    if is_explicit(text):
        return CondaSource(origin=path.name, text=text, folder=folder)
    try:
        document = read_yaml(text)
    except ValueError as error:
        raise SifmodError(f"'{path}' {_NEITHER}: {error}") from error
    dependencies = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(dependencies, list):
        raise SifmodError(f"'{path}' {_NEITHER}")
    if not all(isinstance(one, str) for one in dependencies):
        raise SifmodError(
            f"'{path}': packages for pip have no place in conda's lock: put them into a requirements file, and install "
            "that on top of the new image, with sifmod environment FILE --on-top"
        )
    if "variables" in document:
        raise SifmodError(
            f"'{path}': variables have no place in conda's lock: remove them from the file, and set them in the new "
            "easyconfig, with container_env"
        )
    listed = document.get("channels", [])
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise SifmodError(f"'{path}' {_NEITHER}: its channels are not a list of names")
    channels = [_channel(str(one), path) for one in listed]
    asked = [_dependency(str(one), path) for one in dependencies]
    found = re.match(r"[\w.+-]+", str(document.get("name", "")))
    return CondaSource(
        origin=path.name,
        # JSON is YAML, and no tool reads it in another way
        text=json.dumps({"channels": [str(one) for one in channels], "dependencies": asked}, indent=1) + "\n",
        name=found[0] if found else "",
        folder=folder,
        channels=tuple(one for one in channels if isinstance(one, Path)),
    )


def _channel(text: str, path: Path) -> Union[str, Path]:
    """Return a channel: its name or address, or the path of its folder, which must be below that of the file."""
    _check_text(text, path)
    if not re.match(r"[./~]|file:", text):
        return text
    parts = urlsplit(text)
    given = Path(unquote(parts.path)) if parts.scheme == "file" else Path(text)
    top = path.parent.absolute()
    folder = Path(os.path.abspath(top / given))  # noqa: PTH100 - without '..', and with links
    if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(top)) or not is_bindable(str(folder)):
        raise SifmodError(
            f"'{path}': the channel '{text}' is not below '{top}', where the file is: put a copy of it there"
        )
    return folder


def _dependency(text: str, path: Path) -> str:
    _check_text(text, path)
    if re.match(r"[./~]|file:", text):
        raise SifmodError(f"'{path}': '{text}' is a place on this host: put its folder into channels")
    return text


def _check_text(text: str, path: Path) -> None:
    """Refuse a text of a file that conda would change, or that is no name or address.

    Conda replaces variables of the environment in channels, and one of them may be a password.
    """
    if has_login(text) or re.search(r"/t/[^/]+/", text):
        raise SifmodError(f"'{path}': credentials don't belong here: use a channel without a login")
    if "$" in text or not text.isprintable() or text.startswith("-"):
        raise SifmodError(f"'{path}': {text!r} is neither the name of a package or a channel nor an address")


def make_conda_environment(
    source: CondaSource, base: NewImage, proposal: Proposal, site: Site, *, say: Callable[[str], None]
) -> Environment:
    """Return a conda environment in an image made from a base, of which the proposal is; nothing is written.

    Raises:
        SifmodError: the packages can't be locked.
        ImageError: the base has none of the tools.
        RuntimeMissingError: there is no container runtime.
    """
    runtime = find_runtime(site)
    tool = _tool_of(base, runtime)
    say(f"making the environment of {source.origin} with {tool} of {base.origin}, to lock its packages")
    locked = source.locked
    if locked is None:
        locked = _made(source, runtime, base.path.absolute(), tool)
    _check_platform(locked, source.origin)
    _check_places(locked, source)
    final, prefix = _proposal(proposal, tool, _python_of(locked, source.origin), source.origin)
    stem = final.file_name[: -len(".eb")]
    name, definition = f"{stem}.conda.txt", f"{stem}.def"
    final = checked_proposal(
        replace(final, parameters={**final.parameters, "definition": definition, "definition_files": [name]})
    )
    comment = (
        f"Written by sifmod environment from {source.origin}: its packages in an image made from {base.origin}. "
        "Review it."
    )
    made_from = basis(base)
    lines = (f"# made for {made_from.identity}", _EXPLICIT, *(one.line for one in locked))
    lock = (name, "".join(f"{line}\n" for line in lines))
    files = {
        name: lock[1],
        definition: _definition(made_from, tool, prefix, locked, lock),
        final.file_name: easyconfig_text(final.parameters, comments=[comment]),
    }
    return Environment(files=files, proposal=final)


def _tool_of(base: NewImage, runtime: ContainerRuntime) -> str:
    """Return the path of conda, mamba or micromamba in a base image."""
    look = ["/bin/sh", "-s"]
    tool = runtime.run(base.path.absolute(), look, stdin=_FIND, time_limit=LOOK_IN_CONTAINER).strip()
    if not tool:
        raise ImageError(f"no conda, mamba or micromamba was found in '{base.origin}': choose another base")
    if not re.fullmatch(r"(/[\w.+-]+)+/(micromamba|mamba|conda)", tool):
        raise ImageError(f"the base has its conda in an unusual place, {tool!r}: choose another base")
    return tool


def _python_of(locked: Sequence[CondaPackage], origin: str) -> str:
    """Return the version of Python in a lock, such as `3.12`."""
    for one in locked:
        python = re.match(r"python-(\d+\.\d+)\.", one.file_name)
        if python:
            return python[1]
    raise SifmodError(f"'{origin}' has no Python: add python to its dependencies")


def _proposal(proposal: Proposal, tool: str, python: str, origin: str) -> tuple[Proposal, str]:
    """Return the easyconfig of an environment, without its definition, and the path of the environment in the image."""
    name = re.sub(r"[^a-z0-9_.+-]", "-", str(proposal.parameters["name"]).lower())
    root = PurePosixPath(tool).parents[1]
    is_micro = tool.endswith("/micromamba")
    prefix = f"/opt/{name}" if is_micro else f"{root}/envs/{name}"
    layout = {"python_prefix": prefix} if is_micro else {"conda_root": str(root), "conda_env": name}
    suffix = re.sub(r"-python-[\d.]+", "", str(proposal.parameters["versionsuffix"]))
    kept = ("easyblock", "name", "version", "homepage", "moduleclass", "gpu")
    parameters: dict[str, Any] = {key: proposal.parameters[key] for key in kept}
    title = parameters["name"]
    about = without_templates(f"{title} {parameters['version']}: the conda environment of {origin}")
    parameters.update(
        versionsuffix=suffix.replace("-singularity", f"-python-{python}-singularity", 1),
        **layout,
        venv=name,
        description=folded(f"{about}, with Python {python}, in a container."),
        whatis=[f"Description: {title} in a container", f"Keywords: {title}, conda, container"],
    )
    return replace(proposal, parameters=parameters), prefix


def _check_platform(locked: Sequence[CondaPackage], origin: str) -> None:
    """Refuse packages of another platform than this one; the folder of a package in its channel says which."""
    own = _SUBDIRS.get(os.uname().machine, "")
    others = {PurePosixPath(urlsplit(one.url).path).parent.name for one in locked} - {"noarch", own}
    if others:
        raise SifmodError(f"the lock '{origin}' is for {', '.join(sorted(others))}, not for {own}: make it for {own}")


def _check_places(locked: Sequence[CondaPackage], source: CondaSource) -> None:
    """Refuse files of this host that a stranger's list, or the base, names: the build copies them into the image."""
    for one in locked:
        if one.path and not Path(os.path.realpath(one.path)).is_relative_to(os.path.realpath(source.folder)):
            raise SifmodError(
                f"'{source.origin}' has the package '{one.path}', which is not below '{source.folder}', where the file "
                "is: put a copy of it there"
            )


def _definition(base: Basis, tool: str, prefix: str, locked: Sequence[CondaPackage], lock: tuple[str, str]) -> str:
    return definition_text(
        base,
        lock,
        _POST.format(work=WORK, tool=shell(tool), prefix=shell(prefix)),
        comment=f"the conda packages of {lock[0]}, in an environment of their own on {base.title}.",
        copied={one.path: one.file_name for one in locked if one.path},
        copy="lock.txt",
        test=True,
    )


def _made(source: CondaSource, runtime: ContainerRuntime, image: Path, tool: str) -> tuple[CondaPackage, ...]:
    """Return the packages of the environment that the base's tool makes from a file."""
    with scratch_folder("conda") as scratch:
        # proxies and certificates; pip's own settings, such as the token of its index, are none of conda's business
        settings, binds = pip_settings(scratch, (), {**network_settings(os.environ), "PIP_CONFIG_FILE": os.devnull})
        binds = (*binds, *(bind for channel in source.channels for bind in _channel_binds(channel, source)))
        try:
            words = ["/bin/sh", "-c", _MAKE, "sifmod", tool]
            runtime.run(image, words, binds=[*scratch_binds(scratch), *binds], env=settings, stdin=source.text)
        except InstallError as error:
            said = str(error).rpartition("its last lines: ")[2].strip().splitlines()
            raise SifmodError(
                f"'{source.origin}' can't be met with {tool} of '{image.name}': {' '.join(said)}. Correct its "
                "dependencies and channels, or check the network, or set TMPDIR to a folder with more space"
            ) from error
        records = sorted((scratch / "environment" / "conda-meta").glob("*.json"))
        return tuple(_recorded(path) for path in records)


def _channel_binds(channel: Path, source: CondaSource) -> Iterator[Bind]:
    """Yield what of a channel the container sees: its folders of packages, and nothing else that lies there.

    The runtime binds them by their names, so nobody else may put another folder, or a link, in their place meanwhile.
    """
    real, top = Path(os.path.realpath(channel)), Path(os.path.realpath(source.folder))
    for above in (real, *real.parents):
        writers = other_writers(above) if above.is_dir() and above.is_relative_to(top) else ""
        if writers:
            raise SifmodError(
                f"'{source.origin}': {writers} may replace what is in '{above}', which has the channel '{channel}': "
                f"copy '{source.folder}' into a folder that only you may write to"
            )
    for name in ("noarch", _SUBDIRS.get(os.uname().machine, "")):
        folder = real / name
        if name and folder.is_dir() and not folder.is_symlink():
            yield Bind(str(folder), str(channel / name), "ro")


def _recorded(path: Path) -> CondaPackage:
    """Return the package of a record in conda-meta, which the image wrote and is not trusted."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            record = json.loads(stream.read(_LARGEST))
        return _package(record["url"], record["md5"], f"the record '{path.name}'")
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SifmodError(f"the record '{path.name}' that the base's conda wrote can't be read: {error}") from error


def _package(url: object, md5: object, where: str) -> CondaPackage:
    """Return a package of a lock, from values that are not trusted."""
    if not isinstance(url, str) or not isinstance(md5, str) or not re.fullmatch(r"[0-9a-f]{32}", md5):
        raise SifmodError(
            f"{where}: a package needs an address and an MD5 sum, as in https://.../x-1.0-0.conda#0123..."
        )
    if has_login(url) or re.search(r"/t/[^/]+/", url):
        raise SifmodError(f"{where}: credentials don't belong into a lock: use a channel without a login")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SifmodError(f"{where}: '{url}' is not the address of a conda package: {error}") from error
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    if not (is_local or parts.scheme in ("http", "https")) or not re.fullmatch(r"[!-~]+\.(conda|tar\.bz2)", url):
        raise SifmodError(f"{where}: '{url}' is not the address of a conda package")
    found = CondaPackage(url, md5)
    if "{{" in url or "$" in url or parts.query or not _FILE_NAME.fullmatch(found.file_name):
        raise SifmodError(f"{where}: '{url}' has characters that a definition file can't hold")
    return found
