"""The answer to an unknown word: the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def perhaps(word: str, known: Iterable[str]) -> str:
    """Return ` (perhaps you meant 'X')` for the known word nearest to `word`, or nothing when none is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (perhaps you meant '{near[0]}')" if near else ""
