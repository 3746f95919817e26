"""What the search on the page looks up: an inverted index from words to modules."""

from __future__ import annotations

import json
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from sifmod.catalogue.model import Entry


def search_script(entries: Sequence[Entry]) -> str:
    """Return a script that sets the index; a page that was opened as a file may load scripts, but no JSON.

    A posting is the distance to the number of the module before, so that most of them have one digit. For packages,
    each is followed by the number of its version in the list of versions.
    """
    commands: dict[str, list[int]] = {}
    packages: dict[str, list[tuple[int, str]]] = {}
    for number, entry in enumerate(entries):
        for command in entry.commands:
            commands.setdefault(command, []).append(number)
        for package in entry.packages:
            packages.setdefault(canonicalize_name(package.name), []).append((number, package.version))
    data = {
        "modules": [entry.module for entry in entries],
        "commands": [[name, _distances(found)] for name, found in sorted(commands.items())],
        "packages": [_postings(name, found) for name, found in sorted(packages.items())],
    }
    # pure ASCII, and no "</script>" or "<!--" whoever includes it
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f"globalThis.sifmodIndex = {text};\n"


def _postings(name: str, found: Sequence[tuple[int, str]]) -> list[object]:
    versions = {version: number for number, version in enumerate(dict.fromkeys(version for _, version in found))}
    distances = _distances([number for number, _ in found])
    pairs = zip(distances, (versions[version] for _, version in found))
    return [name, list(versions), [value for pair in pairs for value in pair]]


def _distances(numbers: Sequence[int]) -> list[int]:
    return [number - before for before, number in zip((0, *numbers), numbers)]
