"""A site file: TOML, with the line of each key, so that a message can say where to look."""

from __future__ import annotations

import json
import re
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
    """A TOML file that was read.

    Attributes:
        path: where it is.
        text: its text.
        values: what it says, as TOML values.
    """

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> SiteFile:
        """Read a file.

        Raises:
            SiteError: it can't be read, or is no TOML; the message says in which line.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SiteError(f"the site file '{path}' can't be read: {error}") from error
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
            line = int(found[2]) if found else max(1, len(text.splitlines()))
            why = f"{found[1]} (column {found[3]})" if found else str(error)
            raise SiteError(f"{place(path, line)} is not valid TOML: {why}") from error
        return cls(path, text, values)

    def line(self, key: str, entry: str = "") -> int:
        """Return the line of a key, counted from 1; 0 where it isn't found.

        Args:
            key: a key of the file.
            entry: a key of the table that `key` is; its line is searched for, else the one of the table.
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
        """Return the line of one item of a list: the first one from the line of its key on that has it in quotes."""
        first = self.line(key)
        for number, line in enumerate(self.text.splitlines(), 1):
            if number >= first and (json.dumps(item, ensure_ascii=False) in line or f"'{item}'" in line):
                return number
        return first

    def _candidates(self, pattern: str) -> Iterator[int]:
        """Give the numbers of the lines that begin with the pattern, where a statement can begin."""
        for number, line in enumerate(self.text.splitlines(), 1):
            if re.match(rf"\s*({pattern})", line) and self._before(number):
                yield number

    def _before(self, number: int) -> dict[str, Any]:
        """Return what the file says before a line, with a probe in the table that the line is in.

        Nothing where the line is in the midst of a value: what is before it is no TOML then.
        """
        before = [*self.text.splitlines()[: number - 1], f"{_PROBE} = 0"]
        try:
            return tomllib.loads("\n".join(before))
        except tomllib.TOMLDecodeError:
            return {}


def place(path: Path, line: int) -> str:
    """Return how a message names a line of a site file, or the file alone where the line is 0."""
    return f"the site file '{path}'" + (f", line {line}," if line else "")


def _word(key: str) -> str:
    return rf"[\"']?{re.escape(key)}[\"']?"
