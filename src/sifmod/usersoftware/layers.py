"""Layers: packed user software below the user's own, by the same rule as the module and the scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sifmod import names
from sifmod.finding import PROBLEM, Finding
from sifmod.host.files import sha256_of
from sifmod.text import quoting
from sifmod.usersoftware.state import listed, packed_problem, sums_in
from sifmod.usersoftware.tree import first_of_each, layers_in


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
        """Bytes of the packed file."""
        return self.path.stat().st_size


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
    for layer in layers(root):
        recorded = sums_in(layer.path.with_suffix(".sha256")) if sums else frozenset()
        if layer.problem:
            why = "its packages are missing in containers"
            remedy = f"restore it from a backup; if it may not be read: chmod ug+r {quoting.shell(layer.path)}"
            yield Finding(PROBLEM, "layers", f"'{layer.path}' can't be used: {layer.problem}", why, remedy)
        elif recorded:
            digest = sha256_of(layer.path)
            if digest not in recorded:
                what = f"'{layer.path}' has the SHA-256 {digest}, but another one was recorded when it was packed"
                yield Finding(
                    PROBLEM, "layers", what, "it is damaged, or not the same file", "restore it from a backup"
                )
