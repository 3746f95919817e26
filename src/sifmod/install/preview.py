"""What an install would write, and how that differs from an existing installation."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Optional

from sifmod import names
from sifmod.artefact import Artefact
from sifmod.container.spec import ContainerSpec
from sifmod.errors import InstallError
from sifmod.fetch.definition import kept_definition
from sifmod.host.files import content_of, inside
from sifmod.install.manifest import Manifest
from sifmod.render.templates import render
from sifmod.site.settings import Site

# Known only after running the image.
_FROM_IMAGE = (names.MANIFEST, f"runscripts/{names.CONSTRAINTS}")


@dataclass(frozen=True)
class Preview:
    """What an install would write, sorted by path; the notes are assumptions, and files that are left out."""

    artefacts: tuple[Artefact, ...]
    notes: tuple[str, ...]


def preview(
    spec: ContainerSpec,
    site: Site,
    *,
    manifest: Optional[Manifest] = None,
    definitions: Sequence[Path] = (),
    python_version: str = "",
) -> Preview:
    """Return what an install of a container would write, with the definition files that are kept.

    The version of the image's Python appears in names of wrappers. It is taken from `python_version`, else from the
    manifest of an earlier install, else from the module's version.

    Raises:
        InstallError: a definition file can't be read.
    """
    left_out = [names.MANIFEST]
    notes = []
    if spec.python:
        if spec.pip_constraints:
            left_out.append(f"runscripts/{names.CONSTRAINTS}")
        version, origin = _python_version(spec, manifest, python_version)
        if version:
            notes.append(f"assuming that the image's Python is {version}, from {origin}")
        else:
            notes.append("the version of the image's Python is unknown: wrappers named after it are left out")
        spec = replace(spec, python_version=version)
    notes.append(f"left out, because an install derives it from the image: {', '.join(left_out)}")
    if spec.image_mode == "central" and not spec.image:
        notes.append("the path of the image is not known yet: only the site's image repositories are named")
    if site.image_repositories and not spec.image_size:
        notes.append("the size of the image is not known yet: the one in a repository must have it, and 0 is shown")
    artefacts = [*render(spec, site), *(kept_definition(path) for path in definitions)]
    return Preview(tuple(sorted(artefacts, key=lambda item: item.path)), tuple(notes))


def differences(
    artefacts: Sequence[Artefact], installdir: Path, manifest: Manifest, module: tuple[Path, str]
) -> Iterator[str]:
    """Yield the lines of a unified diff from an installation to what an install would write, its module file included.

    Raises:
        InstallError: an installed file can't be read, or a name in the manifest leads out of the installation.
    """
    new = {str(artefact.path): artefact.text for artefact in artefacts}
    old = set(manifest.files) - {manifest.image, manifest.squashfs, *manifest.old_images, *_FROM_IMAGE}
    for name in sorted({*old, *new}):
        yield from _difference(str(PurePosixPath(name)), _text(inside(installdir, name)), new.get(name))
    path, text = module
    yield from _difference(str(path), _text(path), text)


def _difference(name: str, old: Optional[str], new: Optional[str]) -> Iterator[str]:
    before = "/dev/null" if old is None else f"installed/{name.lstrip('/')}"
    after = "/dev/null" if new is None else f"new/{name.lstrip('/')}"
    lines = difflib.unified_diff((old or "").splitlines(), (new or "").splitlines(), before, after, lineterm="")
    yield from lines


def _text(path: Path) -> Optional[str]:
    try:
        return content_of(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"'{path}' can't be read: {error.strerror}") from error


def _python_version(spec: ContainerSpec, manifest: Optional[Manifest], given: str) -> tuple[str, str]:
    """Return the version of the image's Python and its source; both empty if the version is unknown."""
    named = re.search(r"(?i)python-(3\.\d+)(?!\d)", spec.version) or re.match(r"(3\.\d+)(?!\d)", spec.version)
    if given:
        return given, "the command line"
    if manifest and manifest.python_version:
        return manifest.python_version, "the earlier install"
    if named and ("python" in named[0].lower() or spec.name == "Python"):
        return named[1], "the module's version"
    return "", ""
