"""The files of advisories: those that are shipped, and the site's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from sifmod.advice.advisory import Advisory, Match
from sifmod.errors import SiteError
from sifmod.resources import data_path
from sifmod.site.advisory import ENTRY, ENTRY_KEYS, FILE_KEYS, MATCH, MATCH_KEYS, NEEDED
from sifmod.site.file import SiteFile
from sifmod.site.reading import read_table
from sifmod.site.settings import Site

KIND = "advisory file"


def load_advisories(site: Site) -> tuple[Advisory, ...]:
    """Return the advisories in force: those that are shipped, then those of the site's files.

    Raises:
        SiteError: a file can't be read, or has a wrong key or value; the message names file and line.
    """
    found: dict[str, Advisory] = {}
    for path in (data_path("advisories") / "advisories.toml", *map(Path, site.advisories)):
        file = SiteFile.read(path, kind=KIND)
        for identifier, advisory in _entries(file).items():
            if isinstance(advisory, _Withdrawn):
                found.pop(identifier, None)
            else:
                found[identifier] = advisory
    return tuple(found.values())


class _Withdrawn(NamedTuple):
    """An entry that removes the advisory of its name."""


def _entries(file: SiteFile) -> dict[str, Advisory | _Withdrawn]:
    entries = read_table(file, file.values, FILE_KEYS).get(ENTRY, ())
    found: dict[str, Advisory | _Withdrawn] = {}
    for number, values in enumerate(entries):
        entry = _Entry(file, number, values)
        advisory = entry.advisory()
        identifier = values["id"]
        if identifier in found:
            raise entry.error(f"has the id '{identifier}', which an earlier entry has too: rename one", "id")
        found[identifier] = advisory
    return found


class _Entry(NamedTuple):
    """One entry of a file."""

    file: SiteFile
    number: int
    values: Mapping[str, Any]

    def error(self, why: str, *keys: str) -> SiteError:
        return SiteError(f"{self.file.place(ENTRY, self.number, *keys)} {why}")

    def advisory(self) -> Advisory | _Withdrawn:
        top = (ENTRY, self.number)
        values = read_table(self.file, self.values, ENTRY_KEYS, top=top, of="an advisory")
        if "id" not in values:
            raise self.error('begins an advisory without id: give it a name, such as id = "jobs-hang"')
        if values.get("withdrawn"):
            others = [key for key in self.values if key not in ("id", "withdrawn")]
            if others:
                raise self.error(f"withdraws an advisory that has {others[0]}: write only its id", "withdrawn")
            return _Withdrawn()
        for key in NEEDED:
            if key not in values and key != MATCH:
                raise self.error(f"begins the advisory '{values['id']}', which has no {key}: add it")
        if not values.get(MATCH):
            raise self.error(f"has the advisory '{values['id']}' without conditions: add [{ENTRY}.{MATCH}]", MATCH)
        match = read_table(self.file, values[MATCH], MATCH_KEYS, top=(*top, MATCH), of=MATCH)
        unset = values.get("unset", ())
        variables = values.get("set", {})
        both = [name for name in unset if name in variables]
        if both:
            raise self.error(f"has {both[0]} in unset, which is in set too: remove one", "unset")
        return Advisory(
            identifier=values["id"],
            severity=values["severity"],
            text=values["text"],
            sources=values["source"],
            remedy=values["remedy"],
            variables=MappingProxyType({**variables, **dict.fromkeys(unset)}),
            match=Match(**match),
        )
