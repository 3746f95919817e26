"""The bills of materials of installed images: one file for each image, named by what identifies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sifmod.errors import ImageError, SifmodError, os_errors
from sifmod.host.parallel import called_in_threads
from sifmod.host.writing import write_new
from sifmod.image.inspection import inspect_inventory
from sifmod.installed.installation import Installation

SUFFIX = ".cdx.json"


@dataclass(frozen=True)
class Bom:
    """The bill of materials of the image of a module."""

    module: str
    path: Path
    is_new: bool = False  # whether it was written now
    problem: str = ""  # why it could not be written, or what it lacks; empty if it is whole


def key_of(item: Installation) -> str:
    """Return what identifies the image of a module: its SHA-256, or of one that was not hashed, its identifier."""
    manifest = item.manifest
    return manifest.image_sha256 or (f"id-{manifest.image_id}" if manifest.image_id else "")


def load_cyclonedx() -> Callable[..., str]:
    """Return `image.sbom.cyclonedx`; SifmodError if its libraries are not there."""
    try:
        from sifmod.image.sbom import cyclonedx
    except ImportError as error:
        raise SifmodError(
            f"an SBOM needs libraries that sifmod's Python does not have ({error}): pip install 'sifmod[sbom]'"
        ) from error
    return cyclonedx


def write_boms(items: Sequence[Installation], folder: Path, *, seconds_of: Callable[[int], int]) -> list[Bom]:
    """Write the bill of materials of each image that has none in a folder yet; return those of all, in order.

    `seconds_of` returns the time of a document for the time of its image.

    Raises:
        SifmodError: the folder can't be made, or the libraries for it are not there.
    """
    cyclonedx = load_cyclonedx()
    with os_errors(SifmodError, f"the folder '{folder}' can't be made"):
        folder.mkdir(parents=True, exist_ok=True)
    first: dict[str, Installation] = {}
    for item in items:
        if key_of(item):
            first.setdefault(key_of(item), item)

    def written(key: str) -> Bom:
        item, path = first[key], folder / f"{key}{SUFFIX}"
        if path.is_file():
            return Bom(item.module, path)
        try:
            inspection, inventory = inspect_inventory(item.image)
            name, sha256 = item.manifest.image, item.manifest.image_sha256
            seconds = seconds_of(inspection.created)
            text = cyclonedx(inventory, name=name, labels=inspection.labels, sha256=sha256, seconds=seconds)
            write_new(path, f"{text}\n", force=True)
        except (ImageError, OSError) as error:
            return Bom(item.module, path, problem=str(error))
        return Bom(item.module, path, is_new=True, problem="; ".join(inventory.missing))

    keys = list(first)
    with called_in_threads(written, keys) as results:
        found = {key: result.result() for key, result in zip(keys, results)}
    none = "its image was never read: install it again"
    boms = []
    for item in items:
        one = found.get(key_of(item), Bom(item.module, folder, problem=none))
        boms.append(Bom(item.module, one.path, one.is_new and one.module == item.module, one.problem))
    return boms
