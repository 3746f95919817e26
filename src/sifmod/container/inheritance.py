"""What a module that builds on another one takes over from it: the parameters of both easyconfigs become one set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sifmod.container.parameters import INHERITED, OF_THE_IMAGE
from sifmod.container.spec import DEFAULT_WRAPPERS, Base
from sifmod.container.wrappers import read_wrappers
from sifmod.errors import ParameterError

BUILDS_ON = "builds_on"


def inherited(base: Base, parameters: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a module that builds on another one.

    Lists and tables are added to those of the base, as its manifest has them; any other parameter of the module's own
    easyconfig replaces the base's. Values are checked where the description of the container is made of them.

    Raises:
        ParameterError: the easyconfig sets what only the base can.
    """
    for name in OF_THE_IMAGE:
        if own.get(name):
            raise ParameterError(
                name, own[name], f"the image and its Python are those of {base.module} (builds_on): remove it"
            )
    venv = own.get("venv")
    if base.venv and venv is not None and venv != base.venv:
        raise ParameterError(
            "venv", venv, f"the user software of {base.module} has the virtual environment '{base.venv}': remove it"
        )
    merged = {name: value for name, value in parameters.items() if name in INHERITED}
    for name, value in own.items():
        below = merged.get(name)
        if name == "wrappers":
            merged[name] = _wrappers(below, value, has_python=bool(base.python_version))
        elif isinstance(below, (list, tuple)) and isinstance(value, (list, tuple)):
            merged[name] = [*below, *value]
        elif isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = {**below, **value}
        else:
            merged[name] = value
    return merged


def _wrappers(below: Any, own: Any, *, has_python: bool) -> dict[str, str]:
    """Return the wrappers of both, each with its command; of a name that both have, the upper one's."""
    usual = DEFAULT_WRAPPERS if has_python else ()
    both = {**read_wrappers(usual if below is None else below), **read_wrappers(own)}
    return {name: shlex.join(words) for name, words in both.items()}
