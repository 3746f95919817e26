"""Nested tables of plain values, printed for Lua, Tcl and bash, as a person and the code that uses them read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

from sifmod.text import quoting

# Keys are names of letters and underscores, and no words of Lua.
Value = Union[str, int, Sequence["Value"], Mapping[str, "Value"]]

_WIDTH = 100


def lua(value: Value, indent: str = "") -> str:
    """Return a value as a constant of Lua. `indent` is that of its first line."""
    if isinstance(value, str):
        return quoting.lua(value)
    deeper = f"{indent}    "
    if isinstance(value, Mapping):
        return _braces([f"{key} = {lua(item, deeper)}" for key, item in value.items()], ",", indent)
    if isinstance(value, Sequence):
        return _braces([lua(item, deeper) for item in value], ",", indent)
    return str(value).lower()


def tcl(value: Value, indent: str = "") -> str:
    """Return a value as a word of Tcl: lists, and dictionaries, in braces. `indent` is that of its first line."""
    if isinstance(value, str):
        return quoting.tcl(value)
    deeper = f"{indent}    "
    if isinstance(value, Mapping):
        return _braces([f"{key} {tcl(item, deeper)}" for key, item in value.items()], "", indent)
    if isinstance(value, Sequence):
        return _braces([tcl(item, deeper) for item in value], "", indent)
    return str(int(value))


def _braces(items: Sequence[str], separator: str, indent: str) -> str:
    """Return items in braces: on one line if that is short, else each on its own."""
    line = f"{{ {f'{separator} '.join(items)} }}" if items else "{}"
    if len(indent + line) <= _WIDTH and "\n" not in line:
        return line
    return "{\n" + "".join(f"{indent}    {item}{separator}\n" for item in items) + f"{indent}}}"


def bash(values: Mapping[str, Value], prefix: str) -> str:
    """Return assignments to variables of bash, whose names begin with the prefix.

    A list is an indexed array, and so is a list of lists, with lines for each of them if they don't fit on one; a table
    is an associative array. Nothing in them is expanded.
    """
    return "".join(f"{_assignment(prefix + name, value)}\n" for name, value in values.items())


def _assignment(name: str, value: Value) -> str:
    if isinstance(value, Mapping):
        pairs = [f"[{key}]={quoting.shell(item)}" for key, item in value.items()]
        return f"declare -gA {name}=({_lines([pairs], len(name) + 12)})"
    if isinstance(value, str) or not isinstance(value, Sequence):
        return f"{name}={quoting.shell(value)}"
    is_nested = any(not isinstance(item, (str, int)) for item in value)
    rows = [[quoting.shell(item) for item in row] for row in (value if is_nested else [value])]  # type: ignore[union-attr]
    return f"{name}=({_lines(rows, len(name))})"


def _lines(rows: Sequence[Sequence[str]], length: int) -> str:
    """Return the words of an array: on the line that has this length if they fit, else each row on its own lines."""
    line = " ".join(word for row in rows for word in row)
    fits = length + len(line) + 3 <= _WIDTH and "\n" not in line
    return line if fits else "".join(map(_filled, rows)) + "\n"


def _filled(words: Sequence[str]) -> str:
    text, length = "", _WIDTH
    for word in words:
        starts = length + 1 + len(word) > _WIDTH
        text += f"\n    {word}" if starts else f" {word}"
        length = 4 + len(word) if starts else length + 1 + len(word)
    return text
