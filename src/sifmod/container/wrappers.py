"""The commands of the host that `wrappers` names, and what each of them runs in the container."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sifmod import names
from sifmod.container.runtime import runtime_commands
from sifmod.errors import ParameterError
from sifmod.text.package import NAME

# Words that only a shell understands.
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1"})


def why_not_a_wrapper(name: str) -> str:
    """Return why no wrapper can have the name of a command on the host; empty if one can."""
    if not NAME.fullmatch(name):
        return "use the name of a command in the image, without a folder"
    if name in names.COMMANDS:
        return "sifmod has a command of this name: remove it from the list"
    if name in names.HOST_COMMANDS or name in runtime_commands():
        return "it would hide the host's command of this name: remove it from the list"
    return ""


def read_wrappers(value: Any) -> Mapping[str, tuple[str, ...]]:
    """Return for each name that an easyconfig lists, or maps to a command, the words of its command in the container.

    Raises:
        ParameterError: a name or a command can't be used.
    """
    if isinstance(value, Mapping):
        return MappingProxyType({_checked_name(name): _words(name, command) for name, command in value.items()})
    if not isinstance(value, (list, tuple)):
        raise ParameterError(
            "wrappers", value, "use a list of names, such as ['gmx'], or a dictionary, such as {'gmx': '/opt/bin/gmx'}"
        )
    return MappingProxyType({name: (name,) for name in map(_checked_name, value)})


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ParameterError("wrappers", name, "put the name of each command in quotes")
    problem = why_not_a_wrapper(name)
    if problem:
        raise ParameterError("wrappers", name, problem)
    return name


def _words(name: str, command: Any) -> tuple[str, ...]:
    """Return the words of a command, split as a shell does; nothing is expanded, and there is no shell to run them."""

    def refused(remedy: str) -> ParameterError:
        return ParameterError("wrappers", {name: command}, remedy)

    if not isinstance(command, str) or not command.strip():
        raise refused(
            "put a command in quotes: its name or absolute path in the container, and arguments if it needs any"
        )
    if re.search(r"[\x00-\x1f\x7f]", command):
        raise refused("write the command on one line, without control characters")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise refused(f"its quotes can't be read ({error}): close them") from error
    shells = "a wrapper starts one command, without a shell: put this into a script, or write sh -c '...'"
    if not words or words[0] in _OPERATORS or _OPERATORS.intersection(words):
        raise refused(shells)
    if re.match(r"[A-Za-z_]\w*=", words[0]):
        raise refused("set variables with container_env: a wrapper starts one command, without a shell")
    if not NAME.fullmatch(words[0]) and not words[0].startswith("/"):
        raise refused("begin with the name of a command in the container, or with its absolute path")
    return words
