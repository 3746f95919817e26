"""Whether the commands that wrappers run start in an installed container, and which versions they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sifmod.container.spec import ContainerSpec
from sifmod.errors import CommandError, InstallError
from sifmod.host.runtime import ContainerRuntime, look
from sifmod.resources import program

# Through the start of every host command: with its bind paths and variables.
_LAUNCH = 'set -euo pipefail; source "$1"; shift; launch "$@"'
_MOST_STARTED = 20
_SECONDS = 5  # for one command
# Statuses of a runtime that can't start a command.
_NOT_STARTED = (126, 127, 255)


@dataclass(frozen=True)
class Started:
    """How commands have started, by wrapper. The answers are texts of the image.

    Of `--version` it is the first line, where it has a number; what is broken lacks its interpreter or a library.
    `container` says whether the container was started to ask them, and starts.
    """

    versions: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    container: bool = False


def first_line(spec: ContainerSpec, runtime: ContainerRuntime, *, shell: bool) -> list[str]:
    """Return the line of a shell that starts the container when it is installed.

    An image that holds nothing but its program, not even a shell, has no `true` either, so it has none: that program is
    started later.
    """
    # an image's own Python need not be called python, that of a virtual environment is
    command = "python --version" if spec.venv else f"{spec.interpreter} --version" if spec.python else "true"
    return [runtime.line_for(command)] if shell or spec.python else []


def check_commands(spec: ContainerSpec, *, shell: bool = True) -> Started:
    """Look for the command of each wrapper of a container without Python, and start the first ones.

    In an image without a shell they are not looked for, only started.

    Commands that the runtime brings with the GPU libraries of the host are left out, because this node may have none;
    and all of a container that is started by its entry point, which may do anything with a command.

    Raises:
        InstallError: a command is missing or not executable, or the container does not start.
    """
    brought = spec.runtime_gpu.commands if spec.runtime_gpu else ()
    commands = {name: spec.command_of(name)[0] for name in spec.wrappers if name not in brought}
    if spec.python or spec.launch == "run" or not commands:
        return Started()
    if not shell:
        return _started_one_by_one(spec, commands)
    words = [*_launch(spec), "/bin/sh", "-s", "--", *dict.fromkeys(commands.values())]
    try:
        done = look(words, stdin=program("commands.sh"))
    except CommandError as error:
        raise InstallError(f"the commands of {spec.module} can't be checked: {error}") from error
    if done.status:
        raise InstallError(f"the commands of {spec.module} can't be checked: {done.last_lines}")
    lines = re.finditer(r"^(\w+)\t([^\t\n]+)(?:\t(.*))?$", done.stdout, re.MULTILINE)
    answers = {(one[1], one[2]): one[3] or "" for one in lines}
    missing = [name for name, command in commands.items() if ("missing", command) in answers]
    if missing:
        raise InstallError(
            f"the container lacks the commands of the wrappers {', '.join(missing)}: correct wrappers in the easyconfig"
        )
    return Started(
        versions={
            name: answers["started", command]
            for name, command in commands.items()
            if re.search(r"\d", answers.get(("started", command), ""))
        },
        broken={name: answers["broken", one] for name, one in commands.items() if ("broken", one) in answers},
        container=True,
    )


def _launch(spec: ContainerSpec) -> list[str]:
    script = str(Path(spec.installdir, "share", "container.sh"))
    return ["/bin/bash", "-pc", _LAUNCH, spec.name, script]


def _started_one_by_one(spec: ContainerSpec, commands: Mapping[str, str]) -> Started:
    """Start the first commands of wrappers with `--version`, each in a container of its own."""
    versions, broken = {}, {}
    for name, command in list(commands.items())[:_MOST_STARTED]:
        try:
            done = look([*_launch(spec), command, "--version"], time_limit=_SECONDS)
        except CommandError:
            continue  # it runs on, or prints without end
        first = done.stdout.strip().partition("\n")[0][:300]
        if done.status in _NOT_STARTED:
            broken[name] = done.last_lines
        elif done.status == 0 and re.search(r"\d", first):
            versions[name] = first
    if broken and len(broken) == min(len(commands), _MOST_STARTED):
        raise InstallError(f"no command of {spec.module} starts in the container: {next(iter(broken.values()))}")
    return Started(versions=versions, broken=broken)
