"""Patterns of names with `*`, `?` and `[a-z0-9]`, as bash, Lua, Tcl and Python understand them alike."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from sifmod.text import quoting

# A class has letters, digits and ranges of them only: each language negates in its own way.
_WILD = re.compile(r"\*|\?|\[(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9])+\]")
_OF_LUA = {"*": ".*", "?": "."}


def pieces(pattern: str) -> tuple[tuple[str, str], ...]:
    """Return the text and the wild parts of a pattern, in order: one of each pair is empty."""
    found, end = [], 0
    for match in _WILD.finditer(pattern):
        found += [(pattern[end : match.start()], ""), ("", match[0])]
        end = match.end()
    return tuple(pair for pair in (*found, (pattern[end:], "")) if any(pair))


def fits(name: str, pattern: str) -> bool:
    """Return whether a whole name matches a pattern."""
    return fnmatchcase(name, pattern)


def is_wild(text: str) -> bool:
    """Return whether a text is a pattern, or begins to be one: it has `*`, `?` or `[` in it."""
    return bool(re.search(r"[*?\[]", text))


def check(pattern: str) -> None:
    """Check a pattern.

    Raises:
        ValueError: it has brackets of another form; the message says what to write.
    """
    if any(re.search(r"[\[\]]", text) for text, _wild in pieces(pattern)):
        raise ValueError("write '[...]' in a pattern with letters, digits and ranges of them only, such as [0-9]")


def shell(pattern: str) -> str:
    """Return a pattern of paths as a word of bash, which expands it."""
    return "".join(wild or quoting.shell(text) for text, wild in pieces(pattern))


def lua(pattern: str) -> str:
    """Return a pattern of names as a Lua string literal, for `string.match`."""
    parts = [_OF_LUA.get(wild, wild) or re.sub(r"\W", r"%\g<0>", text) for text, wild in pieces(pattern)]
    return quoting.lua(f"^{''.join(parts)}$")


def lua_path(pattern: str) -> str:
    """Return a pattern of paths as a Lua table: texts, and for each folder's entries a table with their pattern."""
    found, text = [], ""
    for name in re.findall(r"[^/]*/*", pattern):
        if is_wild(name):
            slashes = name[len(name.rstrip("/")) :]
            found += [quoting.lua(text), f"{{ {lua(name.rstrip('/'))} }}"]
            text = slashes
        else:
            text += name
    return f"{{ {', '.join([*found, quoting.lua(text)])} }}"


def tcl(pattern: str) -> str:
    """Return a pattern of paths as a word of Tcl, for `glob`."""
    return quoting.tcl("".join(wild or re.sub(r"[\\{}*?\[\]~]", r"\\\g<0>", text) for text, wild in pieces(pattern)))
