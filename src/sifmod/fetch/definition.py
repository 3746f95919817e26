"""The definition of an image: the identity of a build, its arguments, and the copy in the installation."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sifmod.artefact import Artefact
from sifmod.container.definitionfile import stages_of
from sifmod.container.dockerfile import IGNORE_FILE, is_dockerfile
from sifmod.container.variables import VARIABLE_NAME
from sifmod.errors import ImageError, InstallError, ParameterError
from sifmod.fetch.uri import REGISTRY_SCHEMES, ImageUri
from sifmod.host.files import is_text, sha256_of


@dataclass(frozen=True)
class Definition:
    """What an image is built from.

    Attributes:
        path: the definition file or the Dockerfile.
        build_args: values of its build arguments.
        target: the stage of a Dockerfile to build; empty for the last one.
        files: files that a Dockerfile may copy; a definition file copies what it names.
    """

    path: Path
    build_args: Mapping[str, str]
    target: str = ""
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.target and not self.is_dockerfile:
            raise ParameterError(
                "build_target", self.target, "only a Dockerfile has stages to choose from: remove this parameter"
            )

    @property
    def is_dockerfile(self) -> bool:
        """Whether it is a Dockerfile."""
        return is_dockerfile(self.path.name)

    @property
    def context(self) -> Mapping[str, Path]:
        """The files of the build context of a Dockerfile, by their names there."""
        own = self.path.with_name(f"{self.path.name}{IGNORE_FILE}")
        ignored = own if own.is_file() else self.path.with_name(IGNORE_FILE)
        found = {path.name: path for path in (*self.files, self.path)}
        return {**found, IGNORE_FILE: ignored} if ignored.is_file() else found

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files to keep with an installation: of those in the context of a Dockerfile, the ones that are text."""
        if not self.is_dockerfile:
            return tuple(dict.fromkeys((*self.files, self.path)))
        return tuple(path for path in self.context.values() if is_text(path))

    @property
    def build_options(self) -> tuple[str, ...]:
        """The options of the command that builds it: its arguments and its stage."""
        arguments = (word for name, value in self.build_args.items() for word in ("--build-arg", f"{name}={value}"))
        return (*arguments, *(("--target", self.target) if self.target else ()))

    @property
    def origin(self) -> str:
        """A text that identifies a build: the file's name and hash, the build arguments, and what it may copy.

        Raises:
            ImageError: a file can't be read.
        """
        arguments = json.dumps(dict(self.build_args), sort_keys=True)
        text = f"{self.path.name} sha256:{_sha256(self.path)} {arguments}"
        if not self.is_dockerfile:
            return text
        others = {
            name: f"{_sha256(path)}{' executable' if os.access(path, os.X_OK) else ''}"
            for name, path in self.context.items()
            if path != self.path
        }
        return f"{text} target={json.dumps(self.target)} context={json.dumps(others, sort_keys=True)}"

    def file_name(self, stem: str) -> str:
        """Return the file name of its image; a changed definition has another name.

        Raises:
            ImageError: a file can't be read.
        """
        return f"{stem}-{hashlib.sha256(self.origin.encode()).hexdigest()[:8]}.sif"


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise ImageError(f"the definition file '{path}' can't be read: {error.strerror}") from error


def registries_of(definition: Path, build_args: Mapping[str, str]) -> frozenset[str]:
    """Return the registries that the stages of a definition file pull from; one that is not known counts as ''.

    Raises:
        ImageError: the definition file can't be read.
    """
    try:
        text = definition.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ImageError(f"the definition file '{definition}' can't be read: {error.strerror}") from error
    found = set()
    for stage in stages_of(text, build_args):
        if stage.agent in REGISTRY_SCHEMES:
            with contextlib.suppress(ValueError):  # of a reference that the runtime refuses too
                found.add(ImageUri.parse(f"docker://{stage.base}").registry if stage.base else "")
    return frozenset(found)


def build_arguments(value: Any) -> Mapping[str, str]:
    """Return the build arguments of a definition file, checked.

    Raises:
        ParameterError: the value is not a dictionary of strings.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(item, str) for pair in value.items() for item in pair):
        raise ParameterError("build_args", value, "use a dictionary of strings, such as {'CUDA': '12.4.1'}")
    for name in value:
        if not VARIABLE_NAME.fullmatch(name):
            raise ParameterError("build_args", name, "this is not the name of a build argument")
    return dict(value)


def build_target(value: Any) -> str:
    """Return the stage of a Dockerfile to build, checked; empty for the last one.

    Raises:
        ParameterError: the value is not the name of a stage.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ParameterError("build_target", value, "use the name of a stage, from FROM ... AS NAME")
    return value


def kept_definition(path: Path) -> Artefact:
    """Return the copy of a definition file for an installation.

    Raises:
        InstallError: the file can't be read.
    """
    try:
        return Artefact(PurePosixPath("share", "docker-defs", path.name), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InstallError(f"the definition file '{path}' can't be read: {error}") from error
