"""What changed between versions: which packages came, went, and have another version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from packaging.utils import canonicalize_name

from sifmod.catalogue.model import Changes, Entry, NewVersion


def with_changes(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return entries, each compared with the next older one of its software that has packages."""
    older: dict[str, Entry] = {}
    made = []
    for entry in reversed(list(entries)):
        before = older.get(entry.name)
        made.append(replace(entry, changes=changes(before, entry)) if before and entry.packages else entry)
        if entry.packages:
            older[entry.name] = entry
    return tuple(reversed(made))


def changes(before: Entry, after: Entry) -> Changes:
    """Return how the packages of two entries differ."""
    old = {canonicalize_name(one.name): one for one in before.packages}
    new = {canonicalize_name(one.name): one for one in after.packages}
    both = sorted(old.keys() & new.keys())
    return Changes(
        since=before.module,
        added=tuple(new[name] for name in sorted(new.keys() - old.keys())),
        removed=tuple(old[name] for name in sorted(old.keys() - new.keys())),
        changed=tuple(
            NewVersion(new[name].name, old[name].version, new[name].version)
            for name in both
            if old[name].version != new[name].version
        ),
    )
