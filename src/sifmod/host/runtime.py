"""The container runtime of this host, and commands run through it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Optional, Union

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.runtime import APPTAINER, Runtime, library_order
from sifmod.errors import CommandError, InstallError, RuntimeMissingError
from sifmod.host.command import LOOK, LOOK_IN_CONTAINER, Result, first_on_path, run
from sifmod.host.files import content_of
from sifmod.site.settings import Site
from sifmod.text.version import version_order

# Settings of the runtime itself, with the prefix SINGULARITY or APPTAINER: its folders.
_KEPT_SETTINGS = ("_CACHEDIR", "_CONFIGDIR", "_LOCALCACHEDIR", "_TMPDIR")

# What a loaded module and its user set for the commands of an installation.
_OF_A_MODULE = ("SIFMOD_RUNTIME_OPTIONS", "SIFMOD_USER_BINDPATH", "__SIFMOD_CONTAINER")

# These configure the host's Python and pip, but the runtime passes them on to the container's.
PYTHON_VARIABLES = (
    "PIP_CONSTRAINT",
    "PIP_PREFIX",
    "PIP_REQUIREMENT",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
)


@dataclass(frozen=True)
class Release:
    """A release of a container runtime, and what differs between releases.

    The facts are those of the CHANGELOG.md of apptainer/apptainer (v1.5.0, 2026-05-06) and of sylabs/singularity
    (4.0.0, 2023-09-19; 4.5.0, 2026-06-25). The tests run Apptainer 1.4.5 only.
    """

    name: str = ""  # `apptainer`, `singularity-ce` or `singularity`; empty if unknown
    number: str = ""  # its version, such as `1.4.5`; empty if unknown

    def _is(self, name: str, since: str) -> bool:
        # of a package's version, such as 4.1.0-1.el8, and of a candidate, such as 1.5.0-rc.1, the number counts
        return self.name == name and version_order(self.number) >= version_order(since)

    @property
    def puts_image_libraries_first(self) -> bool:
        """Whether the image's libraries come before the host's under `--nv` and `--rocm`, if the image has glibc.

        Modules put the host's in front nevertheless, with `gpu_libraries = 'host'`: see `LibraryOrder`.
        """
        order = library_order(self.name, self.number)
        return order is not None and order.fills

    @property
    def requires_ecl(self) -> bool:
        """Whether no SIF starts without the file `ecl.toml` (SingularityCE 4.5.0, "Behaviour Changes")."""
        return self._is("singularity-ce", "4.5")

    @property
    def takes_devices(self) -> bool:
        """Whether its option --device gives containers devices of CDI files (`Runtime.devices`)."""
        return self.name in APPTAINER.devices and self._is(self.name, APPTAINER.devices[self.name])

    @property
    def leaves_out_variables(self) -> bool:
        """Whether `--no-env` and APPTAINER_NOENV keep variables of the host out of containers (Apptainer 1.5.0)."""
        return self._is("apptainer", "1.5")


@dataclass(frozen=True)
class ContainerRuntime:
    """A container runtime of this host."""

    path: Path

    @property
    def row(self) -> Runtime:
        """What is known of it."""
        return APPTAINER

    @property
    def starts_sifs(self) -> bool:
        """Whether it starts, makes and verifies SIFs."""
        return self.row.starts_sifs

    @cached_property
    def version(self) -> str:
        """The output of `singularity --version`, such as `apptainer version 1.4.5`; empty if it fails. Asked once."""
        try:
            return run([self.path, "--version"], time_limit=LOOK).stdout.strip()
        except CommandError:
            return ""

    @property
    def release(self) -> Release:
        """Its name and number, from its version."""
        match = re.search(r"(?P<name>[A-Za-z-]+) version (?P<number>\d+(\.\d+)+)", self.version)
        return Release(match["name"].lower(), match["number"]) if match else Release()

    @property
    def configuration(self) -> Mapping[str, str]:
        """How it was built, such as `LIBEXECDIR`, as `singularity buildcfg` prints it; empty if that fails."""
        try:
            printed = run([self.path, "buildcfg"], time_limit=LOOK).stdout
        except CommandError:
            return {}
        return dict(re.findall(r"^(\w+)=(.*)$", printed, re.MULTILINE))

    @property
    def has_minimal_dev(self) -> bool:
        """Whether containers see few of the host's devices (`mount dev = minimal`); false if that can't be read."""
        paths = (path for name, path in self.configuration.items() if name.endswith("_CONF_FILE"))
        with contextlib.suppress(OSError):
            return any(re.search(rb"^mount dev *= *minimal", content_of(Path(path)), re.M) for path in paths)
        return False

    def line_for(self, command: str) -> str:
        """Return the line of a shell that runs a command in the container of a loaded module, contained."""
        return f'{shlex.quote(str(self.path))} exec {" ".join(names.CONTAINED)} "$SIF" {command}'

    def run(
        self,
        image: Path,
        command: Sequence[str],
        *,
        binds: Sequence[Bind] = (),
        env: Optional[Mapping[str, str]] = None,
        stdin: str = "",
        time_limit: Optional[float] = None,
    ) -> str:
        """Run a command in an image and return its standard output.

        The image may be hostile: it sees only the bind paths given here, and only the variables in `env`. A loaded
        container module and the user's own SINGULARITY*/APPTAINER* settings have no effect, except for the runtime's
        temporary and cache folders.

        Raises:
            InstallError: the command failed, or took longer than these seconds; the message has its last lines.
        """
        what = f"the command '{' '.join(command)}' in the image '{image.name}'"
        with self.started(image, command, binds, env or {}) as (words, environ):
            return answer_of(words, what, stdin=stdin, env=environ, time_limit=time_limit)

    @contextlib.contextmanager
    def started(
        self, image: Path, command: Sequence[str], binds: Sequence[Bind], env: Mapping[str, str]
    ) -> Iterator[tuple[list[Union[str, Path]], dict[str, str]]]:
        """Yield the words and the environment with which `run` starts a command."""
        yield self.contained(image, command, binds=binds, env=env)

    def contained(
        self,
        image: Path,
        command: Sequence[str],
        *,
        binds: Sequence[Bind] = (),
        env: Optional[Mapping[str, str]] = None,
        options: Sequence[str] = (),
    ) -> tuple[list[Union[str, Path]], dict[str, str]]:
        """Return the words and the environment that run a command as `run` does, with more options of the runtime."""
        environ = plain_environment()
        bind_path = ",".join(bind.argument for bind in binds)
        for prefix in ("SINGULARITY", "APPTAINER"):
            environ[f"{prefix}_BINDPATH"] = bind_path
            environ.update({f"{prefix}ENV_{name}": value for name, value in (env or {}).items()})
        return [self.path, "exec", *names.CONTAINED, *options, image, *command], environ


def answer_of(
    words: Sequence[Union[str, Path]], what: str, *, stdin: str, env: Mapping[str, str], time_limit: Optional[float]
) -> str:
    """Return what a command in a container prints; InstallError with its last lines if it failed, or took too long."""
    try:
        done = run(words, stdin=stdin, env=env, time_limit=time_limit)
    except CommandError as error:
        raise InstallError(f"{what} failed: {error}") from error
    if done.status:
        raise InstallError(f"{what} failed with exit status {done.status}; its last lines: {done.last_lines}")
    return done.stdout


def _steers_containers(name: str) -> bool:
    """Return whether a variable of the host would change what a command does in the container."""
    for prefix in ("SINGULARITY", "APPTAINER"):
        if name.startswith(prefix):
            return name[len(prefix) :] not in _KEPT_SETTINGS
    return name in (*PYTHON_VARIABLES, *_OF_A_MODULE)


def look(command: Sequence[Union[str, Path]], *, stdin: str = "", time_limit: float = LOOK_IN_CONTAINER) -> Result:
    """Run one of an installation's own commands for a look into its container: contained, without user settings."""
    environ = {**plain_environment(), "SIFMOD_RUNTIME_OPTIONS": " ".join(names.CONTAINED)}
    return run(command, stdin=stdin, env=environ, time_limit=time_limit)


def plain_environment() -> dict[str, str]:
    """Return the environment without what would change what a command does in a container."""
    return {name: value for name, value in os.environ.items() if not _steers_containers(name)}


def release_here(site: Site) -> Release:
    """Return the release of the site's container runtime on this host; an unknown one if there is no runtime."""
    try:
        return find_runtime(site).release
    except RuntimeMissingError:
        return Release()


def has_minimal_dev(site: Site) -> bool:
    """Return whether containers of the site's runtime see few devices; false if there is no runtime."""
    try:
        return find_runtime(site).has_minimal_dev
    except RuntimeMissingError:
        return False


def find_runtime(site: Site) -> ContainerRuntime:
    """Return the site's container runtime, or the first known one on PATH; else RuntimeMissingError names them."""
    path = first_on_path(site.runtime_commands)
    if path is None:
        raise RuntimeMissingError(site.runtime_is_missing)
    return ContainerRuntime(path)
