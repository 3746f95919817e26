"""Text of foreign origin on a terminal: what would steer it is shown, not obeyed."""

from __future__ import annotations

import re
import unicodedata

# Control characters but line feed and tab, what turns the direction of text round, line separators that only some
# programs know, and halves of surrogate pairs (odd bytes in file names), which are no UTF-8.
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return text with each character that steers a terminal, or that can't be printed, as its escape: `\x1b`."""
    return STEERING.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns(text: str) -> int:
    """Return how many columns of a terminal a line of printable text takes: wide characters count double."""
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
