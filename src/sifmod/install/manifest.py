"""The manifest: what an installation holds, from where, and what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.errors import InstallError


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
        return json.dumps({"format": 1, **asdict(self)}, indent=2, sort_keys=True) + "\n"


def read_manifest(installdir: Path) -> Optional[Manifest]:
    """Return the manifest of an installation, or None where sifmod has installed nothing.

    Raises:
        InstallError: there is one that can't be read.
    """
    path = installdir / names.MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        data.pop("format")
        return _checked(Manifest(**{**data, "files": tuple(data["files"])}))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InstallError(f"the manifest '{path}' can't be read ({error}): move it away and reinstall") from error


def _checked(manifest: Manifest) -> Manifest:
    """Return the manifest if every value has the type that it should have.

    Raises:
        TypeError: one has another; the message names it.
    """
    tables = ("tools", "hashes", "expected_packages")
    kinds = {"image_size": int, "files": tuple, **dict.fromkeys(tables, dict)}
    for name, value in vars(manifest).items():
        if not isinstance(value, kinds.get(name, str)):
            raise TypeError(f"its {name} is {value!r}")
    for text in (*manifest.files, *(text for name in tables for text in getattr(manifest, name).values())):
        if not isinstance(text, str):
            raise TypeError(f"it has {text!r} where a text should be")
    return manifest
