"""The files of advisories: those that are shipped, and the site's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sifmod.advice.advisory import Advisory, Match
from sifmod.container.gpu import LIBRARIES, VENDORS
from sifmod.container.variables import check_variable
from sifmod.errors import SiteError
from sifmod.finding import OK, SEVERITIES
from sifmod.resources import data_path
from sifmod.site.file import SiteFile, place
from sifmod.site.settings import Site
from sifmod.text.digest import DIGEST
from sifmod.text.printable import STEERING
from sifmod.text.suggest import perhaps

KIND = "advisory file"
_ENTRY = "advisory"
_SEVERITIES = tuple(severity for severity in SEVERITIES if severity != OK)
# A module's help can't have these: modulefiles and EasyBuild's templates give them a meaning.
_UNSHOWABLE = re.compile(r"[\[\]{}\\%]")
# What modules compare at load, in Lua and in Tcl.
_PLAIN_RANGE = re.compile(r"((<|<=|>|>=|==|!=)\s*\d+(\.\d+)*)(\s*,\s*(<|<=|>|>=|==|!=)\s*\d+(\.\d+)*)*")


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
    for key in file.values:
        if key != _ENTRY:
            where = place(file.path, file.line(key), kind=KIND).rstrip(",")
            raise SiteError(
                f"unknown key '{key}' in {where}{perhaps(key, [_ENTRY])}: a file of advisories has entries "
                f"[[{_ENTRY}]] alone"
            )
    entries = file.values.get(_ENTRY, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SiteError(
            f"{place(file.path, file.line(_ENTRY), kind=KIND)} begins an entry with [[{_ENTRY}]]: correct it"
        )
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
        line = self.file.line(_ENTRY, self.number, *keys)
        return SiteError(f"{place(self.file.path, line, kind=KIND)} {why}")

    def advisory(self) -> Advisory | _Withdrawn:
        fields = self._read(self.values, _KEYS, "")
        if "identifier" not in fields:
            raise self.error('begins an advisory without id: give it a name, such as id = "jobs-hang"')
        if fields.pop("withdrawn", False):
            others = [key for key in self.values if key not in ("id", "withdrawn")]
            if others:
                raise self.error(f"withdraws an advisory that has {others[0]}: write only its id", "withdrawn")
            return _Withdrawn()
        for key, name in (("severity", "severity"), ("text", "text"), ("source", "sources"), ("remedy", "remedy")):
            if name not in fields:
                raise self.error(f"begins the advisory '{fields['identifier']}', which has no {key}: add it")
        if not fields.get("match"):
            why = f"has the advisory '{fields['identifier']}' without conditions: add [advisory.match]"
            raise self.error(why, "match")
        fields["match"] = Match(**self._read(fields["match"], _MATCH, "match"))
        unset = fields.pop("unset", ())
        values = fields.pop("set", {})
        both = [name for name in unset if name in values]
        if both:
            raise self.error(f"has {both[0]} in unset, which is in set too: remove one", "unset")
        return Advisory(variables=MappingProxyType({**values, **dict.fromkeys(unset)}), **fields)

    def _read(self, values: Mapping[str, Any], keys: Mapping[str, _Key], table: str) -> dict[str, Any]:
        fields = {}
        around = (table,) if table else ()
        for key, value in values.items():
            if key not in keys:
                known = ", ".join(keys)
                where = table and f" in {table}"
                raise self.error(
                    f"has the unknown key '{key}'{where}{perhaps(key, keys)}: use one of {known}", *around, key
                )
            name, read = keys[key]
            try:
                fields[name] = read(value)
            except TypeError as error:
                raise self.error(f"has {key} = {_shown(value)}: it takes {error}", *around, key) from error
            except ValueError as error:
                raise self.error(f"has {key} = {_shown(value)}: {error}", *around, key) from error
        return fields


class _Key(NamedTuple):
    """A key of an entry: the field that it becomes, and what converts its value.

    `read` raises TypeError with what the key takes, or ValueError with what is wrong with the value.
    """

    field: str
    read: Callable[[Any], Any]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError('a string in quotes, such as key = "value"')
    if not value.strip():
        raise ValueError("it is empty")
    return value


def _identifier(value: Any) -> str:
    if not re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", _text(value)):
        raise ValueError("use lower-case letters and digits, with '-' or '.' between them")
    return str(value)


def _sentences(value: Any) -> str:
    text = " ".join(_text(value).split())
    wrong = _UNSHOWABLE.search(text) or STEERING.search(text)
    if wrong:
        raise ValueError(f"a module's help can't have {wrong[0]!r}: write it without")
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _severity(value: Any) -> str:
    if _text(value) not in _SEVERITIES:
        raise ValueError(f"use {' or '.join(_SEVERITIES)}{perhaps(value, _SEVERITIES)}")
    return str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError('a list of strings, such as key = ["one", "two"]')
    if not value:
        raise ValueError("it is empty: remove it")
    return tuple(map(_text, value))


def _sources(value: Any) -> tuple[str, ...]:
    sources = (_text(value),) if isinstance(value, str) else _texts(value)
    for source in sources:
        if not re.fullmatch(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#@!$&'()*+,;=-]*", source):
            raise ValueError(f"'{source}' is not an address of a page: write one that begins with https://")
    return sources


def _flag(value: Any) -> bool:
    if value is not True:
        raise ValueError("write true, without quotes, or remove it")
    return True


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError('a table of variables, such as set = { NAME = "value" }')
    for name, content in value.items():
        check_variable(name, content)
    return value


def _names(value: Any) -> tuple[str, ...]:
    for name in _texts(value):
        check_variable(name, "")
    return tuple(value)


def _digests(value: Any) -> tuple[str, ...]:
    for item in _texts(value):
        if not DIGEST.fullmatch(item):
            raise ValueError(f"'{item}' is not a digest: write 'sha256:' and 64 hexadecimal digits")
    return tuple(value)


def _patterns(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise TypeError('a table of patterns, such as labels = { "org.opencontainers.image.version" = "1.*" }')
    return MappingProxyType(dict(value))


def _ranges(value: Any) -> Mapping[str, SpecifierSet]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise TypeError('a table of version ranges, such as key = { torch = ">=2.0,<2.3" }')
    found = {}
    for name, item in value.items():
        try:
            found[name] = SpecifierSet(item)
        except InvalidSpecifier as error:
            raise ValueError(f"'{item}' is not a range of versions: write one such as '>=2.0,<2.3'") from error
    return MappingProxyType(found)


def _drivers(value: Any) -> Mapping[str, SpecifierSet]:
    found = _ranges(value)
    for vendor, item in value.items():
        _choice(tuple(VENDORS))(vendor)
        if not _PLAIN_RANGE.fullmatch(item.strip()):
            raise ValueError(
                f"'{item}' is not a range of driver versions: write numbers and dots, such as '>=550,<560'"
            )
    return found


def _choice(known: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if _text(value) not in known:
            raise ValueError(f"use {' or '.join(known)}{perhaps(value, known)}")
        return str(value)

    return read


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError("a date without quotes, such as 2026-01-31")
    return value


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("a table of conditions, below the line [advisory.match]")
    return value


_MATCH: Mapping[str, _Key] = MappingProxyType(
    {
        "images": _Key("images", _texts),
        "digests": _Key("digests", _digests),
        "labels": _Key("labels", _patterns),
        "packages": _Key("packages", _ranges),
        "libraries": _Key("libraries", _ranges),
        "built_from": _Key("built_from", _date),
        "built_before": _Key("built_before", _date),
        "gpu": _Key("gpu", _choice(tuple(VENDORS))),
        "gpu_libraries": _Key("gpu_libraries", _choice(LIBRARIES)),
        "sites": _Key("sites", _texts),
        "runtimes": _Key("runtimes", _ranges),
        "tools": _Key("tools", _ranges),
        "drivers": _Key("drivers", _drivers),
        "since": _Key("since", _date),
        "until": _Key("until", _date),
    }
)

_KEYS: Mapping[str, _Key] = MappingProxyType(
    {
        "id": _Key("identifier", _identifier),
        "severity": _Key("severity", _severity),
        "text": _Key("text", _sentences),
        "source": _Key("sources", _sources),
        "remedy": _Key("remedy", _sentences),
        "set": _Key("set", _variables),
        "unset": _Key("unset", _names),
        "match": _Key("match", _table),
        "withdrawn": _Key("withdrawn", _flag),
    }
)
