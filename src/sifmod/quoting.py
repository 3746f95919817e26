"""Quoting for the languages of the templates: every interpolation goes through one of these filters."""

from __future__ import annotations

import re
import shlex

_LUA_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\000"}


def shell(value: object) -> str:
    """Return the value as one word of a POSIX shell."""
    return shlex.quote(str(value))


def lua(value: object) -> str:
    """Return the value as a Lua string literal (Lua 5.1 to 5.4, reference manual, "Lexical Conventions")."""
    return '"' + "".join(_LUA_ESCAPES.get(char, char) for char in str(value)) + '"'


def comment(value: object) -> str:
    """Return the value on one line, fit for a comment of any of the languages."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", str(value)).strip()
