"""The definition file of an image: the identity of a build, its arguments, and the copy in the installation."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sifmod.artefact import Artefact
from sifmod.container.variables import VARIABLE_NAME
from sifmod.errors import ImageError, InstallError, ParameterError
from sifmod.fetch.uri import REGISTRY_SCHEMES, ImageUri


def definition_origin(definition: Path, build_args: Mapping[str, str]) -> str:
    """Return a text that identifies a build: name and hash of the definition file, and the build arguments.

    Raises:
        ImageError: the definition file can't be read.
    """
    try:
        text = definition.read_bytes()
    except OSError as error:
        raise ImageError(f"the definition file '{definition}' can't be read: {error.strerror}") from error
    arguments = json.dumps(dict(build_args), sort_keys=True)
    return f"{definition.name} sha256:{hashlib.sha256(text).hexdigest()} {arguments}"


def definition_file_name(definition: Path, build_args: Mapping[str, str], *, stem: str) -> str:
    """Return the file name of the image of a definition file; a changed definition has another name."""
    return f"{stem}-{hashlib.sha256(definition_origin(definition, build_args).encode()).hexdigest()[:8]}.sif"


def registries_of(definition: Path, build_args: Mapping[str, str]) -> frozenset[str]:
    """Return the registries that the stages of a definition file pull from; one that is not known counts as ''.

    Raises:
        ImageError: the definition file can't be read.
    """
    try:
        text = definition.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ImageError(f"the definition file '{definition}' can't be read: {error.strerror}") from error
    text = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: build_args.get(match[1], match[0]), text)
    found = set()
    # each stage begins with its bootstrap agent (Apptainer user guide, "Definition Files")
    for stage in re.split(r"(?im)^(?=[ \t]*bootstrap[ \t]*:)", text)[1:]:
        header = dict(re.findall(r"(?m)^[ \t]*(\w+)[ \t]*:[ \t]*(\S*)", re.split(r"(?m)^[ \t]*%", stage)[0]))
        keys = {name.lower(): value for name, value in header.items()}
        if keys["bootstrap"].lower() in REGISTRY_SCHEMES:
            source = keys.get("from", "")
            known = not keys.get("registry") and "{{" not in source
            with contextlib.suppress(ValueError):
                found.add(ImageUri.parse(f"docker://{source}").registry if known else keys.get("registry", ""))
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


def kept_definition(path: Path) -> Artefact:
    """Return the copy of a definition file for an installation.

    Raises:
        InstallError: the file can't be read.
    """
    try:
        return Artefact(PurePosixPath("share", "docker-defs", path.name), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InstallError(f"the definition file '{path}' can't be read: {error}") from error
