"""enroot as the container runtime of a host that has none for SIFs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Union

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.runtime import RUNTIMES, Runtime
from sifmod.errors import CommandError, InstallError
from sifmod.host.command import LOOK, run
from sifmod.host.runtime import ContainerRuntime, plain_environment

# Where a container has the script that sets its environment; no image has such a folder.
_SCRIPT_FOLDER = "/.sifmod"
_SCRIPT = "with-environment"


@dataclass(frozen=True)
class Enroot(ContainerRuntime):
    """enroot, which starts a SquashFS file: the root file system of a SIF, as an installation holds it for enroot.

    Containers see the processes and devices of the host, which those of other runtimes do not: enroot 4.1.2 has no
    namespace for processes. A script gives a command in the container the environment that it has with other runtimes.
    """

    with_environment: str

    @property
    def row(self) -> Runtime:
        """What is known of it."""
        return RUNTIMES["enroot"]

    @cached_property
    def version(self) -> str:
        """Its name and version, such as `enroot version 4.1.2`; empty if it does not run. Asked once."""
        try:
            number = run([self.path, "version"], time_limit=LOOK).stdout.strip()
        except CommandError:
            return ""
        return f"enroot version {number}" if number else ""

    @property
    def configuration(self) -> Mapping[str, str]:
        """Empty: it does not say how it was built. Each of its containers has a user namespace."""
        return {}

    def line_for(self, command: str) -> str:
        """Return the line of a shell that runs a command in the container of a loaded module, contained."""
        options = f"SIFMOD_RUNTIME_OPTIONS='{' '.join(names.CONTAINED)}'"
        return f"SIFMOD_RUNTIMES={self.row.key} {options} in-container {command}"

    @contextlib.contextmanager
    def started(
        self, image: Path, command: Sequence[str], binds: Sequence[Bind], env: Mapping[str, str]
    ) -> Iterator[tuple[list[Union[str, Path]], dict[str, str]]]:
        """Yield the words and environment with which `run` starts a command; no file system in a file is mounted."""
        with tempfile.TemporaryDirectory(prefix="sifmod-") as folder:
            script = Path(folder).resolve() / _SCRIPT
            script.write_text(self.with_environment, encoding="utf-8")
            script.chmod(0o755)
            mounts = [self._mount(bind) for bind in (Bind(str(script.parent), _SCRIPT_FOLDER, "ro"), *binds)]
            environ = {**plain_environment(), **self.row.contained, "__SIFMOD_QUOTED": exports(env)}
            words: list[Union[str, Path]] = [self.path, "start", "-e", "SHELL=/bin/sh", "-e", "__SIFMOD_QUOTED"]
            words += [word for mount in mounts for word in ("-m", mount)]
            words += [image, f"{_SCRIPT_FOLDER}/{_SCRIPT}", "--in", "/", *command]
            yield words, environ

    def _mount(self, bind: Bind) -> str:
        """Return a bind path as enroot reads it: without options it assumes rbind and x-create=auto, with some not."""
        elsewhere = "install on a node with Apptainer or SingularityCE"
        options = [option for option in bind.options.split(",") if option]
        if any(option.startswith("image-src=") for option in options):
            raise InstallError(f"{self.row.name} can't mount the file system in '{bind.source}': {elsewhere}")
        mounts = self.row.mounts
        for path in (bind.source, bind.destination):
            if mounts and mounts.refuses(path):
                why = f"because of {mounts.words} in it: rename it, or {elsewhere}"
                raise InstallError(f"{self.row.name} can't mount '{path}', {why}")
        flags = [option for option in options if option in ("ro", "rw")]
        return f"{bind.source}:{bind.destination}" + (f":rbind,{flags[-1]},x-create=auto" if flags else "")


def exports(env: Mapping[str, str]) -> str:
    """Return commands that set variables, in one line: enroot writes a variable as a line of a file."""
    quotes = {"'": "'\\''", "\n": "'\"$sifmod_newline\"'"}
    quoted = {name: "".join(quotes.get(char, char) for char in value) for name, value in env.items()}
    return "".join(f"export SINGULARITYENV_{name}='{value}';" for name, value in quoted.items())
