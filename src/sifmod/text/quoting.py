"""Quoting for the languages of the templates: every interpolation goes through one of these filters."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from typing import Any

# The variables that are expanded in a value, unless its kind says otherwise.
EXPANDED = ("HOME", "USER")
_LUA_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\000"}


def shell(value: object) -> str:
    """Return the value as one word of a POSIX shell."""
    return shlex.quote(str(value))


def csh(value: object) -> str:
    """Return the value, which has no line breaks, as one word of csh, which also expands `!` within quotes."""
    return "'" + str(value).replace("'", "'\\''").replace("!", "\\!") + "'"


def fish(value: object) -> str:
    r"""Return the value as one word of fish, which also expands `\\` and `\'` within single quotes."""
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def lua(value: object) -> str:
    """Return the value as a Lua string literal (Lua 5.1 to 5.4, reference manual, "Lexical Conventions")."""
    return '"' + "".join(_LUA_ESCAPES.get(char, char) for char in str(value)) + '"'


def tcl(value: object) -> str:
    """Return the value as one Tcl word, also within braces (Tcl(3tcl), rules 4 to 9).

    Control characters are escaped because one of them ends a script, and braces because Tcl counts unescaped braces if
    the word is in a body.
    """
    return '"' + "".join(_tcl_character(char) for char in str(value)) + '"'


def _tcl_character(char: str) -> str:
    if char in '\\"$[]{}':
        return f"\\{char}"
    return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


def python(value: object) -> str:
    """Return text, a number, None or a collection of these as a Python literal on one line; TypeError for others."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{python(key)}: {python(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(python, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(python, value)) + ("," if len(value) == 1 else "") + ")"
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise TypeError(f"{value!r} can't be written as Python")


def without_templates(value: Any) -> Any:
    """Return a value for an easyconfig, escaped so that EasyBuild does not change it.

    EasyBuild replaces `%(name)s` in the strings of an easyconfig (its documentation, "Templates"), so the `%` is
    doubled, also in collections.
    """
    if isinstance(value, str):
        return re.sub(r"%(?=%*\(\w+\)s)", "%%", value)
    if isinstance(value, Mapping):
        return {without_templates(key): without_templates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_templates, value))
    return value


def comment(value: object) -> str:
    """Return the value on one line, for a comment in any of the languages."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", str(value)).strip()
