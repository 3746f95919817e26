"""The container runtime of this host, and commands run through it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.errors import CommandError, InstallError, RuntimeMissingError
from sifmod.host.command import LOOK, run
from sifmod.site.settings import Site

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
class ContainerRuntime:
    """A container runtime of this host.

    Attributes:
        path: absolute path of its command.
    """

    path: Path

    @property
    def version(self) -> str:
        """The output of `singularity --version`, such as `apptainer version 1.4.5`; empty if it fails."""
        try:
            return run([self.path, "--version"], time_limit=LOOK).stdout.strip()
        except CommandError:
            return ""

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

        Args:
            image: the SIF.
            command: the command and its arguments.
            binds: bind paths for this command only.
            env: variables to set in the container.
            stdin: text for its standard input.
            time_limit: seconds that it may take; by default there is no limit.

        Raises:
            InstallError: the command failed, or took too long; the message has its last lines.
        """
        environ = _plain_environment()
        bind_path = ",".join(bind.argument for bind in binds)
        for prefix in ("SINGULARITY", "APPTAINER"):
            environ[f"{prefix}_BINDPATH"] = bind_path
            environ.update({f"{prefix}ENV_{name}": value for name, value in (env or {}).items()})
        what = f"the command '{' '.join(command)}' in the image '{image.name}'"
        words: list[Union[str, Path]] = [self.path, "exec", *names.CONTAINED, image, *command]
        try:
            done = run(words, stdin=stdin, env=environ, time_limit=time_limit)
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


def looking_environment() -> dict[str, str]:
    """Return the environment for a look through an installation's own commands: contained, without the user's own."""
    environ = _plain_environment()
    environ["SIFMOD_RUNTIME_OPTIONS"] = " ".join(names.CONTAINED)
    return environ


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not _steers_containers(name)}


def find_runtime(site: Site) -> ContainerRuntime:
    """Return the site's container runtime, or the first known one on PATH.

    Raises:
        RuntimeMissingError: there is no runtime; the message names the commands that were tried.
    """
    for candidate in site.runtimes:
        found = shutil.which(candidate)
        if found:
            return ContainerRuntime(Path(found))
    raise RuntimeMissingError(site.runtime_is_missing)
