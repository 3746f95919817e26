"""The file of packages that an environment is made from: which kind of file it is, by its name and its content."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Union

from sifmod.environment.conda import CondaSource, is_explicit, read_conda
from sifmod.environment.python import Source
from sifmod.environment.requirements import PDM, PIXI, POETRY, read_pyproject, read_requirements, text_of, toml_of
from sifmod.environment.toollock import UV_LOCK
from sifmod.errors import SifmodError

AnySource = Union[Source, CondaSource]

# Locks that only the tool of their name reads, and what makes a file of packages from the project.
_OTHERS = {"pdm.lock": PDM, "pixi.lock": PIXI, "poetry.lock": POETRY}


class Kind(Enum):
    """The kinds of files, in words."""

    REQUIREMENTS = "a requirements file"
    LOCK = "a lock"
    PROJECT = "a pyproject.toml"
    CONDA = "a conda environment"


def kind_of(path: Path) -> Kind:
    """Return the kind of a file of packages, or raise SifmodError; its reader says whether all of it can be taken."""
    if path.name in _OTHERS:
        raise SifmodError(f"'{path}' is not read here: write a file with {_OTHERS[path.name]}")
    if path.name == UV_LOCK:
        return Kind.LOCK
    text, suffix = text_of(path), path.suffix.lower()
    if is_explicit(text) or suffix in (".yml", ".yaml"):
        return Kind.CONDA
    if suffix == ".toml":  # the names of locks are PEP 751's
        is_lock = re.fullmatch(r"pylock(\.[^.]+)?\.toml", path.name) or "lock-version" in toml_of(path)
        return Kind.LOCK if is_lock else Kind.PROJECT
    if suffix in (".txt", ".in") or "requirements" in path.name:
        return Kind.REQUIREMENTS
    raise SifmodError(
        f"'{path}' is none of the files of packages by its name and content: a requirements file (NAME.txt, NAME.in), "
        f"a lock (pylock.toml, {UV_LOCK}), a pyproject.toml, an environment.yml, or a list of conda with "
        "@EXPLICIT"
    )


def read_packages(path: Path, kind: Kind, *, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> AnySource:
    """Return what a file of packages asks for; of a pyproject.toml with these extras and dependency groups.

    Raises:
        SifmodError: it can't be read, or has something that can't be taken.
    """
    if kind is Kind.CONDA:
        return read_conda(path)
    if kind is Kind.LOCK:
        return Source(lock=path)
    if kind is Kind.PROJECT:
        return Source(requirements=read_pyproject(path, extras=extras, groups=groups))
    return Source(requirements=read_requirements(path))
