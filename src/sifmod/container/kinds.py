"""The kinds of values of easyconfig parameters: what each takes, and how it is checked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Callable, Optional

from sifmod.container.bind import Bind
from sifmod.container.variables import VARIABLE_NAME, check_variable
from sifmod.container.wrappers import read_wrappers
from sifmod.text.package import NAME, is_package
from sifmod.text.suggest import perhaps


class WrongItemError(ValueError):
    """One item of a list, or one entry of a table, is invalid; `why` says what to write instead."""

    def __init__(self, item: Any, why: str) -> None:
        super().__init__(why)
        self.item = item


@contextlib.contextmanager
def naming_item(item: Any) -> Iterator[None]:
    """Say of what is wrong in the block that it is this item, or entry."""
    try:
        yield
    except ValueError as error:
        raise WrongItemError(item, str(error)) from error


def checked_items(items: Iterable[str], check: Callable[[str], Any]) -> tuple[Any, ...]:
    """Return items as a check makes them; an error names its item."""
    found = []
    for item in items:
        with naming_item(item):
            found.append(check(item))
    return tuple(found)


@dataclass(frozen=True)
class Kind:
    """One kind of value."""

    title: str  # the values that it takes, for the documentation
    # checks a value of an easyconfig and returns it in the type that the library uses. It raises ValueError with what
    # to write instead; of one item it raises WrongItemError
    read: Callable[[Any], Any]


def check_choice(text: str, known: Sequence[str]) -> str:
    """Return a word that is known; for another one, a ValueError names those that are, and the nearest one."""
    if text not in known:
        raise ValueError(f"use {' or '.join(repr(word) for word in known)}{perhaps(text, known)}")
    return text


def _choice(known: Sequence[str], value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"use {' or '.join(repr(word) for word in known)}")  # noqa: TRY004 - as Kind.read promises
    return check_choice(value, known)


def choice(*known: str) -> Kind:
    """Return the kind for a choice of words."""
    return Kind(" or ".join(f"`'{word}'`" for word in known), partial(_choice, known))


def choice_or_none(*known: str) -> Kind:
    """Return the kind for a choice of words, or `''` for none of them."""
    return Kind(f"{choice(*known).title}, `''` for none", lambda value: _choice(known, value) if value else "")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("use one text in quotes")  # noqa: TRY004 - as Kind.read promises
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("use True or False, without quotes")  # noqa: TRY004 - as Kind.read promises
    return value


def _name(value: Any) -> str:
    if value in ("", False):
        return ""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError("use only letters, digits, '_', '.', '+' and '-', and no slash")
    return value


def _family(value: Any) -> str:
    family = _name(value)
    if not re.fullmatch(r"[A-Za-z0-9_]*", family):
        raise ValueError("it becomes part of a variable: use only letters, digits and '_'")
    return family


def _stage(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ValueError("use the name of a stage, from FROM ... AS NAME")
    return value


def _image_path(value: Any) -> str:
    if not value:
        return ""
    if not isinstance(value, str) or not re.fullmatch(r"(/[A-Za-z0-9_.+@%=-]+)+/?", value) or "/../" in f"{value}/":
        raise ValueError("use an absolute path in the image, such as '/opt/miniconda3'")
    return value.rstrip("/")


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValueError("use a list of strings, such as ['one', 'two']")
    for item in value:
        if "\n" in item or "\0" in item:
            raise WrongItemError(item, "put each item on one line")
    return tuple(value)


def _file_names(value: Any) -> tuple[str, ...]:
    for item in _texts(value):
        if "/" in item or item.startswith("."):
            raise WrongItemError(item, "use the name of a file beside the easyconfig, without a folder")
    return tuple(value)


def _binds(value: Any) -> tuple[Bind, ...]:
    return checked_items(_texts(value), Bind.parse)


def _packages(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(version, str) and name and version for name, version in value.items()
    ):
        raise ValueError("use a dictionary of names and exact versions, such as {'torch': '2.2.0'}")
    for name, version in value.items():
        # EasyBuild writes them into the module
        if not is_package(name, version):
            raise WrongItemError({name: version}, "use the name and the version that `pip list` shows")
    return MappingProxyType(dict(value))


def _variables(value: Any) -> Mapping[str, Optional[str]]:
    if not isinstance(value, Mapping):
        raise ValueError("use a dictionary, such as {'OMP_NUM_THREADS': '7'}")  # noqa: TRY004 - as Kind.read promises
    for name, content in value.items():
        with naming_item({name: content}):
            check_variable(name, content)
    return MappingProxyType(dict(value))


def _build_arguments(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for pair in value.items() for item in pair):
        raise ValueError("use a dictionary of strings, such as {'CUDA': '12.4.1'}")
    for name in value:
        if not VARIABLE_NAME.fullmatch(name):
            raise WrongItemError(name, "this is not the name of a build argument")
    return MappingProxyType(dict(value))


TEXT = Kind("string", _text)
FLAG = Kind("`True` or `False`", _flag)
A_NAME = Kind("name", _name)
FAMILY = Kind("name, `''` for none", _family)
STAGE = Kind("name of a stage", _stage)
IMAGE_PATH = Kind("absolute path in the image", _image_path)
TEXTS = Kind("list of strings", _texts)
FILE_NAMES = Kind("list of names of files", _file_names)
BINDS = Kind("list of bind paths", _binds)
PACKAGES = Kind("dictionary of names and versions", _packages)
VARIABLES = Kind("dictionary of variables", _variables)
BUILD_ARGUMENTS = Kind("dictionary of strings", _build_arguments)
WRAPPERS = Kind("list of names, or dictionary of names and commands", read_wrappers)
