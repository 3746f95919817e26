"""Layers: packed user software below the user's own, by the same rule as the module and the scripts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sifmod import names
from sifmod.finding import PROBLEM, Finding
from sifmod.host.files import sha256_of
from sifmod.text import quoting
from sifmod.usersoftware.state import listed, packed_problem, sums_in
from sifmod.usersoftware.tree import first_of_each, layers_in

_TOPIC = "layers"


@dataclass(frozen=True)
class Layer:
    """One layer of an installation.

    Attributes:
        path: its packed file.
        place: where containers see it.
        problem: why it can't be used; empty if it can.
        packages: `name==version` of what it had when it was packed.
    """

    path: Path
    place: str
    problem: str
    packages: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of the packed file; 0 if it has gone since."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


def layers(root: Path) -> tuple[Layer, ...]:
    """Return the layers of an installation; the first is the one directly below the user's own software."""
    return tuple(
        Layer(path, f"{names.USER_LAYERS}/{number}", packed_problem(path), listed(path.with_suffix(".txt")))
        for number, path in enumerate(layers_in(root), 1)
    )


def packages_of_all(own: tuple[str, ...], below: tuple[Layer, ...]) -> tuple[str, ...]:
    """Return `name==version` of what Python finds: of a package in several, what is on top; sorted."""
    lines = [*own, *(line for layer in below if not layer.problem for line in layer.packages)]
    return tuple(sorted(first_of_each("\n".join(lines)).splitlines(), key=str.lower))


def layer_findings(root: Path, *, sums: bool) -> Iterator[Finding]:
    """Yield what keeps containers from seeing a layer.

    Args:
        root: the installation.
        sums: whether to read the layers and compare their SHA-256 with what make-squashfs recorded.
    """
    yield from _unseen(root)
    for layer in layers(root):
        recorded = sums_in(layer.path.with_suffix(".sha256")) if sums else frozenset()
        if layer.problem:
            why = "its packages are missing in containers"
            remedy = f"restore it from a backup; if it may not be read: chmod ug+r {quoting.shell(layer.path)}"
            yield Finding(PROBLEM, _TOPIC, f"'{layer.path}' can't be used: {layer.problem}", why, remedy)
        elif recorded:
            why, remedy = "it is damaged, or not the same file", "restore it from a backup"
            try:
                digest = sha256_of(layer.path)
            except OSError as error:
                what = f"'{layer.path}' can't be read: {error.strerror}"
                yield Finding(PROBLEM, _TOPIC, what, "packages in it are lost", remedy)
                continue
            if digest not in recorded:
                what = f"'{layer.path}' has the SHA-256 {digest}, but another one was recorded when it was packed"
                yield Finding(PROBLEM, _TOPIC, what, why, remedy)


def _unseen(root: Path) -> Iterator[Finding]:
    """Yield why files that are named like layers are none: they are counted, from 1 up to the first gap."""
    folder = root / names.USER_SOFTWARE_LAYERS
    why = "packages in layers are missing in containers"
    try:
        found = sorted(filter(None, (_number(path.name) for path in folder.iterdir())))
        if found:  # a folder that may be listed may not be entered
            (folder / f"{found[0]}.squashfs").lstat()
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
    unseen = [number for number in found if number > count]
    if not unseen:
        return
    shown = ", ".join(f"{number}.squashfs" for number in unseen)
    if count == names.MOST_LAYERS:
        reason, remedy = f"there may be {names.MOST_LAYERS} layers", "move it out of that folder"
    else:
        first = folder / f"{count + 1}.squashfs"
        reason = f"{first.name} is {'not a file' if os.path.lexists(first) else 'missing'}"
        remedy = f"restore {first.name} from a backup"
    yield Finding(PROBLEM, _TOPIC, f"'{folder}' has what is not used, {shown}: {reason}", why, remedy)


def _number(name: str) -> int:
    """Return the number of a layer by the name of its file; 0 if that is no such name."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})\.squashfs", name)
    return int(match[1]) if match else 0
