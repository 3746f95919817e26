"""The manifest: what an installation holds, from where, and what made it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from sifmod import names
from sifmod.artefact import path_problem
from sifmod.errors import InstallError
from sifmod.text.package import PYTHON_VERSION

# Rises when a manifest can't be understood without knowing of the change; keys are added without.
_FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """What was installed.

    Attributes:
        module: full name of the module.
        image: file name of the SIF in the installation.
        image_source: absolute path that it came from.
        image_sha256: its SHA-256, in hexadecimal; empty where the image was linked and not read.
        image_size: its size in bytes.
        python_version: `major.minor` of the image's Python; empty where the module offers none.
        files: paths of all files that the installation wrote, relative to it, sorted.
        tools: name and version of each tool that took part.
        image_origin: the URI that it was pulled from, or what identifies the definition file; empty for other images.
        image_digest: what its registry calls it, as `sha256:...`; empty where it has no such name.
        venv: name of the virtual environment; empty where there is no user software.
        hashes: SHA-256, in hexadecimal, of each text that the installation wrote, by its path; not of this manifest.
        expected_packages: names and exact versions of packages that the container's Python must have.
    """

    module: str
    image: str
    image_source: str
    image_sha256: str
    image_size: int
    python_version: str
    files: tuple[str, ...]
    tools: Mapping[str, str]
    image_origin: str = ""
    image_digest: str = ""
    venv: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)
    expected_packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The manifest as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=2, sort_keys=True) + "\n"


def read_manifest(installdir: Path) -> Optional[Manifest]:
    """Return the manifest of an installation, or None where sifmod has installed nothing.

    A manifest is data of whoever may write to the installation: it names files in it, and nothing outside.

    Raises:
        InstallError: there is one that can't be read, or that a newer sifmod has written.
    """
    path = installdir / names.MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        newer = _newer_format(data)
        manifest = None if newer else _checked(data)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InstallError(f"the manifest '{path}' can't be read ({error}): move it away and reinstall") from error
    if newer:
        raise InstallError(
            f"the installation '{installdir}' was written by a newer sifmod ({newer}; this one knows up to format "
            f"{_FORMAT}): use that sifmod for it. Nothing was changed"
        )
    return manifest


def _newer_format(data: Mapping[str, Any]) -> str:
    """Return the format of a manifest, and what wrote it, if this sifmod does not know the format; else empty.

    Raises:
        TypeError: this is no number of a format.
    """
    number = data["format"]
    if type(number) is not int or number < 1:
        raise TypeError(f"its format is {number!r}")
    if number <= _FORMAT:
        return ""
    tools = data.get("tools")
    version = tools.get("sifmod") if isinstance(tools, dict) else None
    return f"sifmod {version!r}, format {number}" if isinstance(version, str) else f"format {number}"


def _checked(data: Mapping[str, Any]) -> Manifest:
    """Return the manifest if every value is of its kind; keys that are unknown are ignored.

    Raises:
        TypeError, ValueError: one is not; the message names it.
    """
    known = {key.name for key in fields(Manifest)}
    manifest = Manifest(**{**{key: data[key] for key in data if key in known}, "files": tuple(data["files"])})
    tables = ("tools", "hashes", "expected_packages")
    kinds = {"image_size": int, "files": tuple, **dict.fromkeys(tables, dict)}
    for name, value in vars(manifest).items():
        if not isinstance(value, kinds.get(name, str)):
            raise TypeError(f"its {name} is {value!r}")
    for text in (*manifest.files, *(text for name in tables for text in getattr(manifest, name).values())):
        if not isinstance(text, str):
            raise TypeError(f"it has {text!r} where a text should be")
    for name, paths in (("files", manifest.files), ("hashes", manifest.hashes), ("image", [manifest.image])):
        for path in paths:
            problem = path_problem(path) or ("it is no file name" if "/" in path and name == "image" else "")
            if problem:
                raise ValueError(f"its {name} has {path!r}: {problem}")
    if manifest.python_version and not PYTHON_VERSION.fullmatch(manifest.python_version):
        raise ValueError(f"its python_version is {manifest.python_version!r}")
    if not re.fullmatch(r"[A-Za-z0-9_.+-]*", manifest.venv) or manifest.venv in (".", ".."):
        raise ValueError(f"its venv is {manifest.venv!r}")
    return manifest
