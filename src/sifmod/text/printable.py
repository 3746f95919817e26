"""Untrusted text on a terminal: control characters are shown as escapes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# Control characters except line feed and tab, characters that change the direction of text, line separators that only
# some programs know, and halves of surrogate pairs (invalid bytes in file names), which UTF-8 can't encode.
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return text with an escape such as `\x1b` for each character that controls a terminal or can't be printed."""
    return STEERING.sub(lambda match: _escape(ord(match[0])), text)


def one_line(text: str) -> str:
    r"""Return printable text, such as the name of a file in a list, with `\n` and `\t` for line feeds and tabs too."""
    return printable(text).replace("\n", r"\n").replace("\t", r"\t")


def shortened(text: str, most: int) -> str:
    """Return a text, cut off with '...' if it has more characters than that."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def few(words: Sequence[str], most: int = 3) -> str:
    """Return the first words of a list, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def short_line(text: str, most: int) -> str:
    """Return a text on one line, cut off if it has more characters than that."""
    return shortened(" ".join(text.split()), most)


def without_unprintable(text: str) -> str:
    """Return a text with a space for each character that can't be printed."""
    return "".join(char if char.isprintable() else " " for char in text)


def is_utf8(text: str) -> bool:
    """Return whether text is UTF-8: a file name or an argument may hold any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns(text: str) -> int:
    """Return how many columns of a terminal a line of printable text needs: wide characters count double."""
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
