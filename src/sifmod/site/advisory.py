"""The keys of an advisory and its conditions, as files of advisories have them: what each takes, and its meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Callable

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sifmod.container.gpu import LIBRARIES, VENDORS
from sifmod.container.kinds import naming_item
from sifmod.container.variables import VARIABLE_NAME, check_variable
from sifmod.finding import OK, SEVERITIES
from sifmod.site.keys import (
    FLAG,
    VARIABLES,
    Key,
    Kind,
    choice,
    list_schema,
    read_items,
    read_string,
    table_schema,
)
from sifmod.text.digest import DIGEST
from sifmod.text.printable import STEERING
from sifmod.text.suggest import perhaps

ENTRY = "advisory"
MATCH = "match"
# Of an entry that does not withdraw another one.
NEEDED = ("severity", "text", "source", "remedy", MATCH)
_SEVERITIES = tuple(severity for severity in SEVERITIES if severity != OK)
_IDENTIFIER = r"[a-z0-9]+([.-][a-z0-9]+)*"
# A module's help can't have these: modulefiles and EasyBuild's templates give them a meaning.
_UNSHOWABLE = r"\[\]{}\\%"
_ADDRESS = r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#@!$&'()*+,;=-]*"
_RANGE = r"(~=|===?|!=|<=?|>=?)\s*[^\s,]+"
_RANGE_SCHEMA = {"type": "string", "pattern": rf"^\s*({_RANGE}(\s*,\s*{_RANGE})*)?\s*$"}


def _text(value: Any) -> str:
    text = read_string(value)
    if not text.strip():
        raise ValueError("it is empty: write something, or remove the key")
    return text


def _identifier(value: Any) -> str:
    if not re.fullmatch(_IDENTIFIER, _text(value)):
        raise ValueError("use lower-case letters and digits, with '-' or '.' between them")
    return str(value)


def _sentences(value: Any) -> str:
    text = " ".join(_text(value).split())
    wrong = re.search(f"[{_UNSHOWABLE}]", text) or STEERING.search(text)
    if wrong:
        raise ValueError(f"a module's help can't have {wrong[0]!r}: write it without")
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _texts(check: Callable[[str], str], value: Any) -> tuple[str, ...]:
    if value == []:
        raise ValueError("it is empty: write something, or remove the key")
    return read_items(value, check)


def _sources(value: Any) -> tuple[str, ...]:
    return (_source(value),) if isinstance(value, str) else _texts(_source, value)


def _source(text: str) -> str:
    if not re.fullmatch(_ADDRESS, text):
        raise ValueError(f"'{text}' is not an address of a page: write one that begins with https://")
    return text


def _variable(name: str) -> str:
    check_variable(name, "")
    return name


def _digest(text: str) -> str:
    if not DIGEST.fullmatch(text):
        raise ValueError(f"'{text}' is not a digest: write 'sha256:' and 64 hexadecimal digits")
    return text


def _table(example: str, check: Callable[[str, str], Any], value: Any) -> Mapping[str, Any]:
    """Return a table of strings with each entry checked; an error names its entry."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise TypeError(f"a table of strings, such as {example}")
    found = {}
    for name, item in value.items():
        with naming_item(name):
            found[name] = check(name, item)
    return MappingProxyType(found)


def _range(_name: str, text: str) -> SpecifierSet:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(f"'{text}' is not a range of versions: write one such as '>=2.0,<2.3'") from error


def _driver(vendor: str, text: str) -> SpecifierSet:
    if vendor not in VENDORS:
        raise ValueError(f"use {' or '.join(map(repr, VENDORS))}{perhaps(vendor, VENDORS)}")
    return _range(vendor, text)


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError("a date without quotes, such as 2026-01-31")
    return value


def _conditions(value: Any) -> Mapping[str, Any]:
    """Return a table that is not yet read any further: its keys have lines of their own in messages."""
    if not isinstance(value, dict):
        raise TypeError(f"a table of conditions, below the line [{ENTRY}.{MATCH}]")
    return value


def _tables(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of a file, likewise."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise TypeError(f"entries, each of which begins with a line [[{ENTRY}]]")
    return tuple(value)


def _filled(pattern: str) -> Mapping[str, Any]:
    """Return the schema of a list of strings that must not be empty."""
    return {**list_schema(pattern), "minItems": 1}


def _keys(*keys: Key) -> Mapping[str, Key]:
    return MappingProxyType({key.name: key for key in keys})


_SENTENCES = Kind(
    "sentences without `[`, `]`, `{`, `}`, `\\` and `%`",
    _sentences,
    {"type": "string", "pattern": rf"^[^{_UNSHOWABLE}]*[^{_UNSHOWABLE}\s][^{_UNSHOWABLE}]*$"},
)
_ADDRESSES = Kind(
    "address, or list of addresses",
    _sources,
    {"anyOf": [{"type": "string", "pattern": f"^{_ADDRESS}$"}, _filled(f"^{_ADDRESS}$")]},
)
_NAMES = Kind("list of variables", partial(_texts, _variable), _filled(f"^{VARIABLE_NAME.pattern}$"))
_WORDS = Kind("list of names", partial(_texts, _text), _filled(r"\S"))
_PATTERNS = Kind("list of shell patterns", _WORDS.read, _WORDS.schema)
_DIGESTS = Kind("list of `sha256:...`", partial(_texts, _digest), _filled(f"^{DIGEST.pattern}$"))
_LABELS = Kind(
    "table of shell patterns",
    partial(_table, '{ "org.opencontainers.image.version" = "1.*" }', lambda _name, text: text),
    table_schema({"type": "string"}),
)
_RANGES = Kind(
    "table of version ranges",
    partial(_table, '{ torch = ">=2.0,<2.3" }', _range),
    table_schema(_RANGE_SCHEMA),
)
_DRIVERS = Kind(
    "table of version ranges",
    partial(_table, f'{{ {next(iter(VENDORS))} = ">=550,<560" }}', _driver),
    table_schema(_RANGE_SCHEMA, names=VENDORS),
)
_DATE = Kind("date", _date, {"type": "string", "format": "date"})

MATCH_KEYS = _keys(
    Key("images", _PATTERNS, "One matches the file name of the image, or the URI that it was pulled from.", ()),
    Key("digests", _DIGESTS, "One is the SHA-256 of the image, or its digest in the registry.", ()),
    Key("labels", _LABELS, "Each matches the label of that name.", {}),
    Key(
        "packages",
        _RANGES,
        "The image has each package in its range: of a Python, of Debian, Ubuntu or Alpine, or in `/.sbom.json`.",
        {},
    ),
    Key(
        "libraries",
        _RANGES,
        'The image has each library in its range; names as `sifmod inspect` prints them, such as `"Open MPI"`.',
        {},
    ),
    Key("built_from", _DATE, "The image was built on that day or later.", None),
    Key("built_before", _DATE, "The image was built before that day.", None),
    Key("gpu", choice(*VENDORS, empty=None), "The container is for GPUs of this vendor.", ""),
    Key("gpu_libraries", choice(*LIBRARIES, empty=None), "Its programs use these libraries on GPUs.", ""),
    Key("sites", _WORDS, "One is that of the site file, without folder and `.toml`.", ()),
    Key("runtimes", _RANGES, "The runtime is one of them: `apptainer`, `singularity`, `singularity-ce`.", {}),
    Key("tools", _RANGES, "This host has each tool in its range: `mksquashfs`, `squashfuse`.", {}),
    Key("drivers", _DRIVERS, "The GPU driver of one of the vendors is in its range; no module tells of it.", {}),
    Key("since", _DATE, "It is that day or later.", None),
    Key("until", _DATE, "It is that day or earlier.", None),
)

ENTRY_KEYS = _keys(
    Key(
        "id",
        Kind(
            "lower-case letters and digits, with `-` or `.` between them",
            _identifier,
            {"type": "string", "pattern": f"^{_IDENTIFIER}$"},
        ),
        "Its name; required, as are the next four.",
        "",
    ),
    Key(
        "severity",
        choice(*_SEVERITIES, empty=None),
        "As of a [finding](commands.md#sifmod) of `doctor`; a `problem` is shown at load.",
        "",
    ),
    Key("text", _SENTENCES, "What goes wrong.", ""),
    Key("source", _ADDRESSES, "Where it was reported, or is described.", ()),
    Key("remedy", _SENTENCES, "What to do about it.", ""),
    Key("set", VARIABLES, "The remedy for machines: values of variables in the container.", {}),
    Key("unset", _NAMES, "Variables that must not be set in the container.", ()),
    Key(
        MATCH,
        Kind("table of conditions, below", _conditions, table_schema(keys=MATCH_KEYS.values())),
        "What it applies to; required.",
        {},
    ),
    Key(
        "withdrawn",
        FLAG,
        "With `true`, removes the advisory of this `id` from an earlier file; the entry has no other key.",
        False,
    ),
)

FILE_KEYS = _keys(
    Key(
        ENTRY,
        Kind(
            f"entries `[[{ENTRY}]]`",
            _tables,
            {
                "type": "array",
                "items": {
                    **table_schema(keys=ENTRY_KEYS.values()),
                    "required": ["id"],
                    "anyOf": [{"required": ["withdrawn"]}, {"required": [*NEEDED]}],
                },
            },
        ),
        "Known problems.",
        (),
    )
)
