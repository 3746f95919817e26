"""The container runtime of this host, and commands run through it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.container.bind import Bind
from sifmod.errors import InstallError, RuntimeMissingError
from sifmod.site.settings import Site

# How much of a failed command's output goes into a message; the whole of it is in EasyBuild's log.
LAST_LINES = 15


# Settings of the runtime itself, after SINGULARITY or APPTAINER: where it works and how it logs in.
_KEPT_SETTINGS = ("_CACHEDIR", "_CONFIGDIR", "_DOCKER_PASSWORD", "_DOCKER_USERNAME", "_LOCALCACHEDIR", "_TMPDIR")

# The host's Python and pip are not the container's, but the runtime passes the environment on.
_PYTHON_VARIABLES = (
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
    """A container runtime that was found.

    Attributes:
        path: absolute path of its command.
    """

    path: Path

    @property
    def version(self) -> str:
        """What `singularity --version` prints, such as `apptainer version 1.4.5`; empty when it fails."""
        done = subprocess.run([str(self.path), "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - the runtime that was asked for
        return done.stdout.strip()

    def run(
        self,
        image: Path,
        command: Sequence[str],
        *,
        binds: Sequence[Bind] = (),
        env: Optional[Mapping[str, str]] = None,
        stdin: str = "",
    ) -> str:
        """Run a command in an image and return what it printed on standard output.

        Nothing of a loaded container module, of the user's own SINGULARITY*/APPTAINER* settings or of the host's Python
        takes part; the runtime's temporary and cache folders and its credentials do.

        Args:
            image: the SIF.
            command: the command and its arguments.
            binds: bind paths for this command alone.
            env: variables injected into the container.
            stdin: text for its standard input.

        Raises:
            InstallError: the command failed; the message has its exit status and its last lines.
        """
        environ = {name: value for name, value in os.environ.items() if not _steers_containers(name)}
        bind_path = ",".join(bind.argument for bind in binds)
        for prefix in ("SINGULARITY", "APPTAINER"):
            environ[f"{prefix}_BINDPATH"] = bind_path
            environ.update({f"{prefix}ENV_{name}": value for name, value in (env or {}).items()})
        done = subprocess.run(  # noqa: S603 - an argument list, no shell
            [str(self.path), "exec", str(image), *command],
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            env=environ,
            check=False,
        )
        if done.returncode:
            raise InstallError(
                f"in the image '{image.name}' the command '{' '.join(command)}' ended with exit status "
                f"{done.returncode}; its last lines: {last_lines(done)}"
            )
        return done.stdout


def last_lines(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of what a command has said, for a message; standard error comes last."""
    return "\n".join((done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:])


def _steers_containers(name: str) -> bool:
    """Return whether a variable of the host would change what a command does in the container."""
    for prefix in ("SINGULARITY", "APPTAINER"):
        if name.startswith(prefix):
            return name[len(prefix) :] not in _KEPT_SETTINGS
    return name in _PYTHON_VARIABLES


def find_runtime(site: Site) -> ContainerRuntime:
    """Return the site's container runtime, or the first known one on PATH.

    Raises:
        RuntimeMissingError: there is none; the message says which commands were looked for.
    """
    for candidate in site.runtimes:
        found = shutil.which(candidate)
        if found:
            return ContainerRuntime(Path(found))
    raise RuntimeMissingError(site.runtime_is_missing)
