"""Layers: packed user software below the user's own, by the same rule as the module and the scripts."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.spec import reinstalling
from sifmod.errors import ImageError
from sifmod.finding import PROBLEM, Finding
from sifmod.text import quoting
from sifmod.usersoftware.state import damage, listed, packed_problem, pins
from sifmod.usersoftware.tree import first_of_each, layers_in, packages_in, packed_is_active

_TOPIC = "layers"
# What sifmod writes into the site-packages of an environment above layers.
BELOW_FILE = "_below.pth"


@dataclass(frozen=True)
class Layer:
    """One layer of an installation."""

    path: Path  # its packed file, or the directory of an installation that one builds on
    place: str  # where containers see it
    problem: str  # why it can't be used; empty if it can
    packages: tuple[str, ...]  # `name==version` of what it had when it was packed

    @property
    def size(self) -> Optional[int]:
        """Bytes of the packed file; None for a directory, and if it has gone since."""
        try:
            return None if self.path.is_dir() else self.path.stat().st_size
        except OSError:
            return None


def trees_below(roots: Sequence[str]) -> tuple[Path, ...]:
    """Return the user software below, packed files and directories, the nearest first, by the rule of the scripts."""
    trees: list[Path] = []
    for root in map(Path, roots):
        if not os.access(root, os.R_OK | os.X_OK):
            continue  # it is gone, or private now
        directory, packed = root / names.USER_SOFTWARE_DIRECTORY, root / names.USER_SOFTWARE_PACKED
        if packed_is_active(root) and not (directory.is_dir() and packed_problem(packed)):
            trees.append(packed)
        elif directory.is_dir():
            trees.append(directory)
        trees += layers_in(root)
    return tuple(trees)


def layer_binds(paths: Sequence[Path]) -> tuple[Bind, ...]:
    """Return the bind paths of layers: packed files and directories, what is nearest first."""
    return tuple(
        Bind(str(path), f"{names.USER_LAYERS}/{number}", "ro" if path.is_dir() else "ro,image-src=/")
        for number, path in enumerate(paths[: names.MOST_LAYERS], 1)
    )


def layers(root: Path, bases: Sequence[str] = ()) -> tuple[Layer, ...]:
    """Return the layers of an installation and its bases; the first is directly below the user's own software."""
    layers_below = []
    for number, path in enumerate((*layers_in(root), *trees_below(bases)), 1):
        if path.is_dir():
            problem = "" if os.access(path, os.R_OK | os.X_OK) else "it can't be read"
            packages = () if problem else pins(packages_in(path))
        else:
            problem, packages = packed_problem(path), listed(path.with_suffix(".txt"))
        if number > names.MOST_LAYERS:
            problem = f"containers have {names.MOST_LAYERS} layers at most"
        layers_below.append(Layer(path, f"{names.USER_LAYERS}/{number}", problem, packages))
    return tuple(layers_below)


def packages_of_all(own: tuple[str, ...], below: tuple[Layer, ...]) -> tuple[str, ...]:
    """Return `name==version` of what Python finds: of a package in several, what is on top; sorted."""
    lines = [*own, *(line for layer in below if not layer.problem for line in layer.packages)]
    return tuple(sorted(first_of_each("\n".join(lines)).splitlines(), key=str.lower))


def layer_findings(root: Path, bases: Sequence[str] = (), *, sums: bool, venv: str = "") -> Iterator[Finding]:
    """Yield what keeps containers from seeing a layer of an installation or of its bases, the nearest first.

    With `sums` the layers are read, and their SHA-256 compared with what make-squashfs recorded. With the name of the
    environment on top it is looked whether that finds their packages.
    """
    yield from _unseen(root)
    found = layers(root, bases)
    if venv and not all(layer.problem for layer in found):
        yield from _unlinked(root, venv)
    for layer in found:
        if layer.problem:
            why = "its packages are missing in containers"
            remedy = f"restore it from a backup; if it may not be read: chmod ug+r {quoting.shell(layer.path)}"
            yield Finding(PROBLEM, _TOPIC, f"'{layer.path}' can't be used: {layer.problem}", why, remedy)
        elif sums and layer.path.is_file():
            record = layer.path.with_suffix(".sha256")
            yield from damage(_TOPIC, layer.path, record, remedy="restore it from a backup")


def lacks_layers(root: Path) -> bool:
    """Return whether containers do not see layers of an installation because a file of them is missing."""
    return any(True for _ in _unseen(root))


def _unlinked(root: Path, venv: str) -> Iterator[Finding]:
    """Yield that the environment on top was not made for layers, or has lost what names them."""
    # the readers of images take a tenth of the time of a `sifmod list`, which does not need them
    from sifmod.image.inspection import open_image

    top = root / (names.USER_SOFTWARE_PACKED if packed_is_active(root) else names.USER_SOFTWARE_DIRECTORY)
    library, folders, link = f"/venv/{venv}/lib", list[str](), ""
    with contextlib.suppress(ImageError), open_image(top) as (_known, files):
        if files:
            folders = [f"{library}/{name}/site-packages" for name in files.names(library)]
            link = "".join(files.text(f"{folder}/{BELOW_FILE}") for folder in folders)
    if folders and f"'{names.USER_LAYERS}/1/" not in link:
        what = f"'{top}' does not lead to the layers below it: it has no {folders[0][1:]}/{BELOW_FILE}"
        remedy = f"move it elsewhere, {reinstalling(root)}, and install again what it had: carry-over"
        yield Finding(PROBLEM, _TOPIC, what, "their packages are missing in containers", remedy)


def _unseen(root: Path) -> Iterator[Finding]:
    """Yield why files that are named like layers are none: they are counted, from 1 up to the first gap."""
    folder = root / names.USER_SOFTWARE_LAYERS
    why = "packages in layers are missing in containers"
    try:
        file_names = {path.name for path in folder.iterdir()}
        numbers = _numbers(file_names, ".squashfs")
        if numbers:  # a folder that may be listed may not be entered
            (folder / f"{numbers[0]}.squashfs").lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        if layers_in(root):  # it may be entered, and that is enough
            return
        remedy = f"its owner can allow it with: chmod ug+rx {quoting.shell(folder)}"
        if isinstance(error, NotADirectoryError):
            remedy = "move it away"
        yield Finding(PROBLEM, _TOPIC, f"'{folder}' can't be read: {error.strerror}", why, remedy)
        return
    count = len(layers_in(root))
    marked = _numbers(file_names, names.LAYER_UNUSED)
    unseen = [number for number in numbers if number > count and number not in marked]
    if not unseen:
        for number in _numbers(file_names, ".txt"):
            if number not in (*numbers, *marked):
                what = f"'{folder}/{number}.squashfs' is gone, and {number}.txt lists what was in it"
                yield Finding(PROBLEM, _TOPIC, what, why, f"restore {number}.squashfs from a backup")
        return
    shown = ", ".join(f"{number}.squashfs" for number in unseen)
    if count == names.MOST_LAYERS:
        reason, remedy = f"there may be {names.MOST_LAYERS} layers", "move it out of that folder"
    else:
        first = folder / f"{count + 1}.squashfs"
        reason = f"{first.name} is {'not a file' if os.path.lexists(first) else 'missing'}"
        remedy = f"restore {first.name} from a backup"
        if count + 1 in marked:
            reason = f"{first.stem}{names.LAYER_UNUSED} says that {first.name} is a layer no longer"
            remedy = "move them out of that folder, or restore it as it was from a backup"
    yield Finding(PROBLEM, _TOPIC, f"'{folder}' has what is not used, {shown}: {reason}", why, remedy)


def _numbers(file_names: Iterable[str], ending: str) -> list[int]:
    """Return the numbers of layers that have a file with this ending, sorted."""
    matches = (re.fullmatch(rf"([1-9][0-9]{{0,8}}){re.escape(ending)}", name) for name in file_names)
    return sorted(int(match[1]) for match in matches if match)
