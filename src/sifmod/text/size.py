"""Sizes and counts as people write them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(count: int) -> str:
    """Return a number of bytes with a decimal unit: `53.6 MB`."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def counted(count: int, noun: str) -> str:
    """Return a number of things whose plural has an `s`: `1 package`, `2 packages`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
