"""Suggestions for an unknown word: the most similar known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def perhaps(word: str, known: Iterable[str]) -> str:
    """Return ` (perhaps you meant 'X')` with the known word most similar to `word`; empty if none is similar."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (perhaps you meant '{near[0]}')" if near else ""
