"""A site file, or another TOML file of a site, with the line of each key for messages."""

from __future__ import annotations

import json
import re
import stat
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Union

from sifmod.errors import SiteError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SITE_FILE = "site file"

_LARGEST = 4 << 20  # characters; sites have some thousands
_PROBE = "sifmod-probe"
_WORD = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_WORD}(?:\s*\.\s*{_WORD})*"


@dataclass(frozen=True)
class SiteFile:
    """A parsed TOML file; messages say of which kind it is."""

    path: Path
    text: str
    values: dict[str, Any]
    kind: str = SITE_FILE

    @classmethod
    def read(cls, path: Path, *, kind: str = SITE_FILE) -> SiteFile:
        """Read a file; messages say of which kind it is.

        Raises:
            SiteError: the path is not a file that can be read, or it is not valid TOML; the message names the line.
        """
        text = _text(path, kind)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
            line = int(found[2]) if found else max(1, len(text.splitlines()))
            why = f"{found[1]} (column {found[3]})" if found else str(error)
            raise SiteError(f"{place(path, line, kind=kind)} is not valid TOML: {why}") from error
        except (ValueError, RecursionError) as error:
            raise SiteError(
                f"the {kind} '{path}' can't be read: it has a number of too many digits, or is nested too deeply"
            ) from error
        return cls(path, text, values, kind)

    def line(self, *keys: Union[str, int]) -> int:
        """Return the line number of a key, or of the table around it if the key isn't found; 0 without either.

        Before the key come the names of the tables around it; that of an array of tables is followed by the number of
        the table, from 0.
        """
        return next((self._lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in self._lines), 0)

    def place(self, *keys: Union[str, int]) -> str:
        """Return the name of the line of a key for a message."""
        return place(self.path, self.line(*keys), kind=self.kind)

    def place_of_item(self, keys: tuple[Union[str, int], ...], item: str) -> str:
        """Return the same for one item of a list: the first line after its key that has the item in quotes."""
        first = self.line(*keys)
        quoted = json.dumps(item, ensure_ascii=False), f"'{item}'"
        lines = enumerate(self.text.splitlines(), 1)
        found = (number for number, line in lines if number >= first and any(text in line for text in quoted))
        return place(self.path, next(found, first), kind=self.kind)

    @cached_property
    def _lines(self) -> dict[tuple[Union[str, int], ...], int]:
        """The first line of each key and table, by the names that lead to it.

        Each line that looks like a key or the head of a table is read after the lines since the last one, in a table of
        their own. That fails if it is inside a value, because the text before it is not valid TOML then.
        """
        lines = self.text.splitlines()
        found: dict[tuple[Union[str, int], ...], int] = {}
        arrays: dict[tuple[Union[str, int], ...], int] = {}
        table: tuple[Union[str, int], ...] = ()
        begin = 0
        for number, line in enumerate(lines, 1):
            head = re.match(rf"\s*({_KEY})\s*=", line)
            if not head and not re.match(r"\s*\[", line):
                continue
            last = f"{head[1]}.{_PROBE} = 0" if head else f"{line}\n{_PROBE} = 0"
            try:
                tomllib.loads("\n".join([f"[{_PROBE}]", *lines[begin : number - 1], last]))
                path = _path_of_probe(tomllib.loads(last))
            except (ValueError, RecursionError):
                continue
            begin = number - 1
            if head:
                path = (*table, *path)
            else:
                path = table = _numbered(path, arrays)
            for end in range(1, len(path) + 1):
                found.setdefault(path[:end], number)
        return found


def _numbered(
    head: tuple[Union[str, int], ...], arrays: dict[tuple[Union[str, int], ...], int]
) -> tuple[Union[str, int], ...]:
    """Return the names that lead to a table, with the number of each table of an array on the way."""
    path: tuple[Union[str, int], ...] = ()
    for name, following in zip(head, (*head[1:], None)):
        if isinstance(name, str):
            path = (*path, name)
            if isinstance(following, int):
                arrays[path] = arrays.get(path, -1) + 1
            if path in arrays:
                path = (*path, arrays[path])
    return path


def _path_of_probe(values: Any) -> tuple[Union[str, int], ...]:
    """Return the names that lead to the table with the probe; empty if it is at the top, or nowhere."""
    for name, value in values.items():
        is_array = isinstance(value, list) and value
        table = value[-1] if is_array else value
        if isinstance(table, dict):
            names = (name, len(value) - 1) if is_array else (name,)
            if _PROBE in table:
                return names
            below = _path_of_probe(table)
            if below:
                return (*names, *below)
    return ()


def _text(path: Path, kind: str) -> str:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open(encoding="utf-8") as stream:
                text = stream.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                raise SiteError(f"the {kind} '{path}' has more than {_LARGEST} characters, so it is not one")
            return text
    except OSError as error:
        raise SiteError(f"the {kind} '{path}' can't be read: {error.strerror}") from error
    except ValueError as error:
        raise SiteError(f"the {kind} '{path}' can't be read: {error}") from error
    found = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
    raise SiteError(f"the {kind} '{path}' is {found}: it must be a TOML file, or a link to one")


def place(path: Path, line: int, *, kind: str = SITE_FILE) -> str:
    """Return the name of a line of a file for a message; of the file alone if the line is 0."""
    return f"the {kind} '{path}'" + (f", line {line}," if line else "")
