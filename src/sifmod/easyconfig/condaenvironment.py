"""A conda environment from a file, in an image made from a base that has conda, mamba or micromamba.

The base's tool makes the environment once, in a contained container, to find out which packages it has. The lock is
conda's own: an explicit list of addresses with MD5 sums, which all three tools install without solving again.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Optional
from urllib.parse import unquote, urlsplit

from sifmod.container.bind import Bind
from sifmod.easyconfig.definition import WORK, Basis, basis
from sifmod.easyconfig.environment import DEFAULT_NAME, DEFAULT_VERSION, Environment
from sifmod.easyconfig.newimage import NewImage
from sifmod.easyconfig.proposal import Proposal, checked_name, checked_proposal
from sifmod.easyconfig.requirements import has_login, text_of
from sifmod.easyconfig.text import easyconfig_text, folded
from sifmod.errors import ImageError, InstallError, SifmodError
from sifmod.host.command import LOOK_IN_CONTAINER
from sifmod.host.runtime import ContainerRuntime, find_runtime
from sifmod.install.pip import pip_settings
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

_DEFINITION = """\
# Written by sifmod new: the conda packages of {lock}, in an environment
# of their own on {base}. To change them, run sifmod new again.
{header}

%setup
    # on the host, where the image that is built lies in $SINGULARITY_ROOTFS
{setup}

%post
    export TMPDIR={work}
    export CONDA_PKGS_DIRS=$TMPDIR/pkgs MAMBA_ROOT_PREFIX=$TMPDIR/root
    cat >"$TMPDIR/explicit.txt" <<'END'
{lines}
END
    {tool} create --yes --quiet --prefix {prefix} --file "$TMPDIR/explicit.txt"
    rm -r {work}

%test
    {prefix}/bin/python3 --version
"""


@dataclass(frozen=True)
class CondaPackage:
    """One package of a lock.

    Attributes:
        url: where it is downloaded from, or a file of the host.
        md5: its MD5 sum, in hexadecimal, which is what explicit lists have.
    """

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
    """A file that a conda environment is made from: an environment.yml, or an explicit list.

    Attributes:
        origin: name of the file.
        text: its content.
        name: name of the environment; empty if the file has none.
    """

    origin: str
    text: str
    name: str = ""

    def named(self, name: str, version: str) -> tuple[str, str]:
        """Return name and version of the module: the given ones, else the environment's name, else the defaults."""
        name, version = name or self.name or DEFAULT_NAME, version or DEFAULT_VERSION
        return checked_name("name", name), checked_name("version", version)

    @property
    def locked(self) -> Optional[tuple[CondaPackage, ...]]:
        """The packages of an explicit list; None for an environment.yml.

        Raises:
            SifmodError: a line is not an address with an MD5 sum.
        """
        lines = [line.strip() for line in self.text.splitlines()]
        if _EXPLICIT not in lines:
            return None
        return tuple(
            _package(*line.rpartition("#")[::2], f"'{self.origin}', line {number}")
            for number, line in enumerate(lines, start=1)
            if line and not line.startswith(("#", "@"))
        )


def read_conda(path: Path) -> CondaSource:
    """Return a file that describes a conda environment.

    Raises:
        SifmodError: it can't be read, is neither an environment.yml nor an explicit list, or has what no lock can hold.
    """
    text = text_of(path)
    if _EXPLICIT in (line.strip() for line in text.splitlines()):
        return CondaSource(origin=path.name, text=text)
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
            "that on top of the new image, with --requirements and --on-top"
        )
    if "variables" in document:
        raise SifmodError(
            f"'{path}': variables have no place in conda's lock: remove them from the file, and set them in the new "
            "easyconfig, with container_env"
        )
    found = re.match(r"[\w.+-]+", str(document.get("name", "")))
    return CondaSource(origin=path.name, text=text, name=found[0] if found else "")


def make_conda_environment(
    source: CondaSource, base: NewImage, proposal: Proposal, site: Site, *, say: Callable[[str], None]
) -> Environment:
    """Return a conda environment in an image made from a base; nothing is written.

    Args:
        source: what it is to have.
        base: the base image.
        proposal: the easyconfig of the base image, with name and version of the environment.
        site: the site to install it at.
        say: called with a line before long work.

    Raises:
        SifmodError: the packages can't be locked.
        ImageError: the base has none of the tools.
        RuntimeMissingError: there is no container runtime.
    """
    runtime, image = find_runtime(site), base.path.absolute()
    tool = runtime.run(image, ["/bin/sh", "-s"], stdin=_FIND, time_limit=LOOK_IN_CONTAINER).strip()
    if not tool:
        raise ImageError(f"no conda, mamba or micromamba was found in '{base.origin}': choose another base")
    if not re.fullmatch(r"(/[\w.+-]+)+/(micromamba|mamba|conda)", tool):
        raise ImageError(f"the base has its conda in an unusual place, {tool!r}: choose another base")
    say(f"making the environment of {source.origin} with {tool} of {base.origin}, to lock its packages")
    locked = source.locked
    if locked is None:
        locked = _made(source, runtime, image, tool)
    _check_platform(locked, source.origin)
    python = next((match for one in locked if (match := re.match(r"python-(\d+\.\d+)\.", one.file_name))), None)
    if not python:
        raise SifmodError(f"'{source.origin}' has no Python: add python to its dependencies")
    name = re.sub(r"[^a-z0-9_.+-]", "-", str(proposal.parameters["name"]).lower())
    root = PurePosixPath(tool).parents[1]
    is_micro = tool.endswith("/micromamba")
    prefix = f"/opt/{name}" if is_micro else f"{root}/envs/{name}"
    layout = {"python_prefix": prefix} if is_micro else {"conda_root": str(root), "conda_env": name}
    suffix = re.sub(r"-python-[\d.]+", "", str(proposal.parameters["versionsuffix"]))
    kept = ("easyblock", "name", "version", "homepage", "moduleclass", "gpu")
    parameters: dict[str, Any] = {
        **{key: proposal.parameters[key] for key in kept},
        "versionsuffix": suffix.replace("-singularity", f"-python-{python[1]}-singularity", 1),
        **layout,
        "venv": name,
    }
    final = replace(proposal, parameters=parameters)
    stem = final.file_name[: -len(".eb")]
    lock, definition = f"{stem}.conda.txt", f"{stem}.def"
    about = without_templates(f"{parameters['name']} {parameters['version']}: the conda environment of {source.origin}")
    parameters.update(
        description=folded("description", f"{about}, with Python {python[1]}, in a container."),
        whatis=[
            f"Description: {parameters['name']} in a container",
            f"Keywords: {parameters['name']}, conda, container",
        ],
        definition=definition,
        definition_files=[lock],
    )
    final = checked_proposal(final)
    comment = (
        f"Written by sifmod new from {source.origin}: its packages in an image made from {base.origin}. Review it."
    )
    made_from = basis(base)
    files = {
        lock: "".join(f"{line}\n" for line in (f"# made for {made_from.identity}", _EXPLICIT, *_lines(locked))),
        definition: _definition(made_from, tool, prefix, locked, lock=lock),
        final.file_name: easyconfig_text(final.parameters, comments=[comment]),
    }
    return Environment(files=files, proposal=final)


def _check_platform(locked: Sequence[CondaPackage], origin: str) -> None:
    """Refuse packages of another platform than this one; the folder of a package in its channel says which."""
    own = _SUBDIRS.get(os.uname().machine, "")
    others = {PurePosixPath(urlsplit(one.url).path).parent.name for one in locked} - {"noarch", own}
    if others:
        raise SifmodError(f"the lock '{origin}' is for {', '.join(sorted(others))}, not for {own}: make it for {own}")


def _lines(locked: Sequence[CondaPackage]) -> list[str]:
    return [one.line for one in locked]


def _definition(base: Basis, tool: str, prefix: str, locked: Sequence[CondaPackage], *, lock: str) -> str:
    local = {one.path: one.file_name for one in locked if one.path}
    placed = [replace(one, url=PurePosixPath(WORK, one.file_name).as_uri()) if one.path else one for one in locked]
    return _DEFINITION.format(
        lock=lock,
        base=base.title,
        header=base.header,
        setup=base.setup(local),
        work=WORK,
        tool=shell(tool),
        prefix=shell(prefix),
        lines="\n".join([_EXPLICIT, *_lines(placed)]),
    )


def _made(source: CondaSource, runtime: ContainerRuntime, image: Path, tool: str) -> tuple[CondaPackage, ...]:
    """Return the packages of the environment that the base's tool makes from a file."""
    with tempfile.TemporaryDirectory(prefix="sifmod-conda-") as folder:
        scratch = Path(folder).resolve()
        # proxies, certificates, and channels that are folders of the host, as for pip
        settings, binds = pip_settings(scratch, source.text.splitlines(), os.environ)
        own = [Bind(str(scratch), "/tmp"), Bind(str(scratch), "/var/tmp")]  # noqa: S108 - in the container
        try:
            words = ["/bin/sh", "-c", _MAKE, "sifmod", tool]
            runtime.run(image, words, binds=[*own, *binds], env=settings, stdin=source.text)
        except InstallError as error:
            said = str(error).rpartition("its last lines: ")[2].strip().splitlines()
            raise SifmodError(
                f"'{source.origin}' can't be met with {tool} of '{image.name}': {' '.join(said)}. Correct its "
                "dependencies and channels, or check the network, or set TMPDIR to a folder with more space"
            ) from error
        records = sorted((scratch / "environment" / "conda-meta").glob("*.json"))
        return tuple(_recorded(path) for path in records)


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
    if "{{" in url:
        raise SifmodError(f"{where}: '{url}' has characters that a definition file can't hold")
    return CondaPackage(url, md5)
