"""Tables of a site's files, read by the kinds of their keys; what is wrong is refused with file, line and remedy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Union

from sifmod.container.kinds import WrongItemError
from sifmod.errors import SiteError
from sifmod.site.file import SiteFile
from sifmod.site.keys import Key, Kind
from sifmod.text.printable import shortened
from sifmod.text.suggest import perhaps

Keys = tuple[Union[str, int], ...]


def read_table(
    file: SiteFile,
    table: Mapping[str, Any],
    known: Mapping[str, Key],
    *,
    top: Keys = (),
    of: str = "",
    outer: Collection[str] = (),
    removed: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the settings of a table by key; `removed` has the release that removed a key, and what to do."""
    for key in table:
        if key not in known:
            advice = (
                "write it above the first line in brackets, as a key of the site"
                if key in outer
                else f"remove it, or write one of {', '.join(known)}"
            )
            where = file.place(*top, key).rstrip(",")
            if key in removed:
                release, instead = removed[key]
                raise SiteError(f"unknown key '{key}' in {where}, removed in sifmod {release}: delete it; {instead}")
            raise SiteError(f"unknown key '{key}'{of and f' of {of}'} in {where}{perhaps(key, known)}: {advice}")
    return {key: read_value(file, (*top, key), known[key].kind, value) for key, value in table.items()}


def read_value(file: SiteFile, keys: Keys, kind: Kind, value: Any) -> Any:
    """Return the setting that a TOML value is."""
    key = ".".join(name for name in keys if isinstance(name, str))
    try:
        return kind.read(value)
    except WrongItemError as error:
        if isinstance(value, Mapping):
            where, item = file.place(*keys, error.item), f"{error.item} = {_shown(value[error.item])}"
        else:
            where, item = file.place_of_item(keys, error.item), repr(error.item)
        raise SiteError(f"{where} has {item} in {key}: {error}") from error
    except TypeError as error:
        raise SiteError(f"{file.place(*keys)} has {key} = {_shown(value)}: it takes {error}") from error
    except ValueError as error:
        raise SiteError(f"{file.place(*keys)} has {key} = {_shown(value)}: {error}") from error


def _shown(value: Any) -> str:
    """Return a wrong value as a message can show it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits than Python writes, or a table in a table in ...
        return "a value that is too long to be shown"
    return shortened(text, 200)
