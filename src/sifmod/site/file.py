"""A site file: TOML, with the line of each key for messages."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sifmod.errors import SiteError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PROBE = "sifmod-probe"


@dataclass(frozen=True)
class SiteFile:
    """A parsed TOML file.

    Attributes:
        path: path of the file.
        text: its text.
        values: its keys and their TOML values.
    """

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> SiteFile:
        """Read a file.

        Raises:
            SiteError: the path is not a file that can be read, or it is not valid TOML; the message names the line.
        """
        text = _text(path)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
            line = int(found[2]) if found else max(1, len(text.splitlines()))
            why = f"{found[1]} (column {found[3]})" if found else str(error)
            raise SiteError(f"{place(path, line)} is not valid TOML: {why}") from error
        except (ValueError, RecursionError) as error:
            raise SiteError(
                f"the site file '{path}' can't be read: it has a number of too many digits, or is nested too deeply"
            ) from error
        return cls(path, text, values)

    def line(self, key: str, entry: str = "") -> int:
        """Return the line number of a key; 0 if it isn't found.

        Args:
            key: a key of the file.
            entry: if `key` is a table, a key in it: its line is returned, or the table's if it isn't found.
        """
        lines = self.text.splitlines()
        if entry:
            for number in self._candidates(rf"({_word(key)}\s*\.\s*)?{_word(entry)}\s*="):
                table = self._before(number).get(key, {})
                is_dotted = re.match(rf"\s*{_word(key)}\s*\.", lines[number - 1])
                if is_dotted or (isinstance(table, dict) and _PROBE in table):
                    return number
        for number in self._candidates(rf"\[{{1,2}}\s*{_word(key)}\s*\]|{_word(key)}\s*[.=]"):
            before = self._before(number)
            if lines[number - 1].lstrip().startswith("[") or _PROBE in before:
                return number
        return 0

    def line_of_item(self, key: str, item: str) -> int:
        """Return the line of one item of a list: the first one after its key that has the item in quotes."""
        first = self.line(key)
        for number, line in enumerate(self.text.splitlines(), 1):
            if number >= first and (json.dumps(item, ensure_ascii=False) in line or f"'{item}'" in line):
                return number
        return first

    def _candidates(self, pattern: str) -> Iterator[int]:
        """Yield the numbers of lines that start with the pattern and are not inside a value."""
        for number, line in enumerate(self.text.splitlines(), 1):
            if re.match(rf"\s*({pattern})", line) and self._before(number):
                yield number

    def _before(self, number: int) -> dict[str, Any]:
        """Return the values before a line, with a probe in the table that contains the line.

        Empty if the line is inside a value, because the text before it is not valid TOML then.
        """
        before = [*self.text.splitlines()[: number - 1], f"{_PROBE} = 0"]
        try:
            return tomllib.loads("\n".join(before))
        except (ValueError, RecursionError):
            return {}


def _text(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SiteError(f"the site file '{path}' can't be read: {error.strerror}") from error
    except ValueError as error:
        raise SiteError(f"the site file '{path}' can't be read: {error}") from error
    kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
    raise SiteError(f"the site file '{path}' is {kind}: it must be a TOML file, or a link to one")


def place(path: Path, line: int) -> str:
    """Return the name of a line of a site file for a message; of the file alone if the line is 0."""
    return f"the site file '{path}'" + (f", line {line}," if line else "")


def _word(key: str) -> str:
    return rf"[\"']?{re.escape(key)}[\"']?"
