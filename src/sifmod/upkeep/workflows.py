"""Installed modules in the words of workflow managers: Nextflow's file names, Snakemake's profile, ReFrame's tests."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.errors import SifmodError, os_errors
from sifmod.fetch.uri import DOCKER_HUB, ImageUri
from sifmod.installed.installation import Installation
from sifmod.resources import data_path
from sifmod.text.version import natural_order

_SUFFIXES = (".img", ".sif")
_LONGEST = 255  # bytes of a file name
# nf-core names the images of quay.io/biocontainers at this place; it has a SIF of each, made from the same build.
_GALAXY = "depot.galaxyproject.org-singularity-"
_BIOCONTAINERS = "quay.io-biocontainers-"


@dataclass(frozen=True)
class Links:
    """What was done in a folder of links."""

    linked: tuple[str, ...]  # all links to installed images, sorted
    removed: tuple[str, ...]  # links to images that are gone
    kept: tuple[str, ...]  # what others have put there under these names, and was left alone


def nextflow_names(origin: str) -> tuple[str, ...]:
    """Return the file names under which Nextflow looks for the image of a URI; none for another origin.

    `docker://quay.io/biocontainers/samtools:1.9--h1` is `quay.io-biocontainers-samtools-1.9--h1.img` to it.
    """
    try:
        uri = ImageUri.parse(origin)
    except ValueError:
        return ()
    texts = [uri.location] if uri.scheme in ("https", "library") else []
    if uri.registry:
        whole = f"{uri.registry}/{uri.repository}"
        written = uri.location.partition("@")[0]
        bases = [written, whole]
        if uri.registry == DOCKER_HUB:  # pipelines leave it out, as docker does
            bases += [uri.repository, re.sub(r"^library/", "", uri.repository)]
        if uri.named_tag or not uri.digest:
            texts += [written, *(f"{base}:{uri.tag}" for base in bases[1:])]
        if uri.digest:
            texts += [uri.location, *(f"{base}@{uri.digest}" for base in bases[1:])]
    found = [_file_name(text) for text in texts]
    found += [_GALAXY + one[len(_BIOCONTAINERS) :] for one in found if one.startswith(_BIOCONTAINERS)]
    return tuple(name for name in dict.fromkeys(found) if len(os.fsencode(name)) <= _LONGEST)


def _file_name(location: str) -> str:
    """Return Nextflow's file name for a URI without its scheme (nextflow, SingularityCache.simpleName)."""
    suffix = _SUFFIXES[".sif:" in location or location.endswith(".sif")]
    if suffix != _SUFFIXES[0]:
        location = location.replace(".sif:", "-") if ".sif:" in location else location[: -len(suffix)]
    return location.replace(":", "-").replace("/", "-") + suffix


def link_for_nextflow(items: Sequence[Installation], folder: Path, *, images: Sequence[Path]) -> Links:
    """Make links with Nextflow's names to the installed images, and remove those whose image is gone.

    Links of others stay: those that lead to no image of an installation, and to none of the folders with `images`.

    Raises:
        SifmodError: the folder can't be written to.
    """
    wanted = {
        name: item.image for item in items if item.has_image for name in nextflow_names(item.manifest.image_origin)
    }
    linked, kept, removed = [], [], []
    ours = tuple(f"{os.path.abspath(one)}/" for one in images)  # noqa: PTH100 - the text of links

    def is_ours(path: Path, image: Optional[Path] = None) -> bool:
        target = os.readlink(path) if path.is_symlink() else ""  # noqa: PTH115 - a Path would normalize it
        return target == str(image) or target.startswith(ours)

    with os_errors(SifmodError, f"the folder '{folder}' can't be written to"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in wanted.items():
            path = folder / name
            if os.path.lexists(path) and not is_ours(path, image):
                kept.append(name)
                continue
            linked.append(name)
            if not path.is_symlink() or os.readlink(path) != str(image):  # noqa: PTH115
                # a pipeline may look for it at any time
                draft = folder / f".sifmod-{uuid.uuid4().hex}"
                draft.symlink_to(image)
                try:
                    draft.replace(path)
                finally:
                    with suppress(OSError):
                        draft.unlink()
        for path in sorted(folder.iterdir()):
            if path.suffix in _SUFFIXES and is_ours(path) and not path.exists():
                path.unlink()
                removed.append(path.name)
    return Links(tuple(sorted(linked)), tuple(removed), tuple(kept))


def snakemake_profile(items: Sequence[Installation]) -> str:
    """Return lines for the `config.yaml` of a profile: rules name `config["modules"][NAME]` in `envmodules`."""
    newest = {item.name: item.module for item in sorted(items, key=lambda item: natural_order(item.version))}
    lines = ["# For config.yaml of a profile of Snakemake, written by sifmod workflows snakemake. In a rule:"]
    lines.append('#     envmodules: config["modules"]["NAME"]')
    # a text in JSON is one in YAML
    lines += ["software-deployment-method: env-modules", "config:"]
    lines.append(f"  - {json.dumps('modules=' + json.dumps(newest))}")
    return "\n".join(lines) + "\n"


def reframe_test(items: Sequence[Installation]) -> str:
    """Return a test of ReFrame that loads each module and runs a command in it."""
    rows = [f"    {json.dumps(item.module)}: {json.dumps(list(_command(item)))}," for item in items]
    empty = "MODULES = {}\n"
    return (data_path("jobs") / "reframe.py").read_text().replace(empty, "\n".join(["MODULES = {", *rows, "}\n"]))


def _command(item: Installation) -> Iterator[object]:
    """Yield the words of a command that any such module has, and a pattern of what it prints."""
    if item.manifest.python_version and "bin/python" in item.manifest.files:
        yield ["python", "--version"]
        yield f"Python {item.manifest.python_version}".replace(".", r"\.")
        return
    wrappers = sorted(Path(name).name for name in item.manifest.files if name.startswith("bin/"))
    own = [name for name in wrappers if name not in names.COMMANDS]
    if own:
        yield ["in-container", "sh", "-c", 'command -v "$1"', "sh", own[0]]
        yield re.escape(own[0])
    else:
        yield ["in-container", "cat", "/etc/os-release"]
        yield "NAME="
