"""enroot as the container runtime of a host that has none for SIFs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Optional, Union

from sifmod.container.bind import Bind
from sifmod.errors import CommandError, InstallError
from sifmod.host.command import LOOK, run
from sifmod.host.runtime import ContainerRuntime, answer_of, plain_environment

# enroot separates the fields of a mount with colons and white space, and has no escape (4.1.2, enroot-mount.c).
_UNMOUNTABLE = re.compile(r"[:\\\s\x00-\x1f]")
# Where a container has the script that sets its environment; no image has such a folder.
_SCRIPT_FOLDER = "/.sifmod"
_SCRIPT = "with-environment"
# A contained command gets no home, no rights of root and no shell's profile. ENROOT_RESTRICT_DEV is left out: its hook
# 10-devices.sh fails on hosts that lack one of the devices.
_SETTINGS = {
    "ENROOT_LOGIN_SHELL": "no",
    "ENROOT_MOUNT_HOME": "no",
    "ENROOT_REMAP_ROOT": "no",
    "ENROOT_ROOTFS_WRITABLE": "no",
}


@dataclass(frozen=True)
class Enroot(ContainerRuntime):
    """enroot, which starts a SquashFS file: the root file system of a SIF, as an installation holds it for enroot.

    Containers see the processes and devices of the host, which those of other runtimes do not: enroot 4.1.2 has no
    namespace for processes.

    Attributes:
        path: absolute path of its command.
        with_environment: the script that gives a command in the container the environment that it has with others.
    """

    with_environment: str

    @property
    def starts_sifs(self) -> bool:
        """False: it knows no SIFs."""
        return False

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
        """Run a command in an image and return its standard output, as other runtimes do.

        Args:
            image: the SquashFS file.
            command: the command and its arguments.
            binds: bind paths for this command only; enroot mounts no file systems in files.
            env: variables to set in the container.
            stdin: text for its standard input.
            time_limit: seconds that it may take; by default there is no limit.

        Raises:
            InstallError: enroot can't mount a bind path, or the command failed, or took too long; the message has its
                last lines.
        """
        with tempfile.TemporaryDirectory(prefix="sifmod-") as folder:
            script = Path(folder).resolve() / _SCRIPT
            script.write_text(self.with_environment, encoding="utf-8")
            script.chmod(0o755)
            mounts = [_mount(bind) for bind in (Bind(str(script.parent), _SCRIPT_FOLDER, "ro"), *binds)]
            environ = {**plain_environment(), **_SETTINGS, "__SIFMOD_QUOTED": exports(env or {})}
            words: list[Union[str, Path]] = [self.path, "start", "-e", "SHELL=/bin/sh", "-e", "__SIFMOD_QUOTED"]
            words += [word for mount in mounts for word in ("-m", mount)]
            words += [image, f"{_SCRIPT_FOLDER}/{_SCRIPT}", "--in", "/", *command]
            what = f"the command '{' '.join(command)}' in the image '{image.name}'"
            return answer_of(words, what, stdin=stdin, env=environ, time_limit=time_limit)


def _mount(bind: Bind) -> str:
    """Return a bind path as enroot reads it: without options it assumes rbind and x-create=auto, with some not."""
    options = [option for option in bind.options.split(",") if option]
    if any(option.startswith("image-src=") for option in options):
        raise InstallError(
            f"enroot can't mount the file system in '{bind.source}': install on a node with Apptainer or SingularityCE"
        )
    for path in (bind.source, bind.destination):
        if _UNMOUNTABLE.search(path):
            raise InstallError(
                f"enroot can't mount '{path}', because of white space, a colon, a backslash or a control character in "
                "it: rename it, or install on a node with Apptainer or SingularityCE"
            )
    flags = [option for option in options if option in ("ro", "rw")]
    return f"{bind.source}:{bind.destination}" + (f":rbind,{flags[-1]},x-create=auto" if flags else "")


def exports(env: Mapping[str, str]) -> str:
    """Return commands that set variables, in one line: enroot writes a variable as a line of a file."""
    quotes = {"'": "'\\''", "\n": "'\"$sifmod_newline\"'"}
    quoted = {name: "".join(quotes.get(char, char) for char in value) for name, value in env.items()}
    return "".join(f"export SINGULARITYENV_{name}='{value}';" for name, value in quoted.items())
