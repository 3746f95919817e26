"""Patterns of names with `*`, `?` and `[a-z0-9]`, as bash, Lua, Tcl and Python understand them alike."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

# A class has letters, digits and ranges of them only: each language negates in its own way.
_WILD = re.compile(r"\*|\?|\[(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9])+\]")


def pieces(pattern: str) -> tuple[tuple[str, str], ...]:
    """Return the text and the wild parts of a pattern, in order: one of each pair is empty."""
    pairs, end = [], 0
    for match in _WILD.finditer(pattern):
        pairs += [(pattern[end : match.start()], ""), ("", match[0])]
        end = match.end()
    return tuple(pair for pair in (*pairs, (pattern[end:], "")) if any(pair))


def fits(name: str, pattern: str) -> bool:
    """Return whether a whole name matches a pattern."""
    return fnmatchcase(name, pattern)


def is_wild(text: str) -> bool:
    """Return whether a text is a pattern, or begins to be one: it has `*`, `?` or `[` in it."""
    return bool(re.search(r"[*?\[]", text))


def check(pattern: str) -> None:
    """Check a pattern; ValueError says what to write instead of brackets of another form."""
    if any(re.search(r"[\[\]]", text) for text, _wild in pieces(pattern)):
        raise ValueError("write '[...]' in a pattern with letters, digits and ranges of them only, such as [0-9]")
