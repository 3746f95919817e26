"""The order of arbitrary version strings; an invalid version comes first."""

from __future__ import annotations

import re

from packaging.version import Version


def version_order(text: str) -> Version:
    """Return the sort key of a version (PEP 440); an invalid version sorts like `0`."""
    try:
        return Version(text)
    except ValueError:  # a number with thousands of digits is one too
        return Version("0")


def natural_order(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key of any text with numbers in it, such as `2.10-rocm-6.2.4`: `2.9` comes before `2.10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    # digits are compared as text: a number may be longer than Python converts
    numbers = (part.lstrip("0") if part[0] in "0123456789" else None for part in parts)
    return tuple((0, 0, part) if digits is None else (1, len(digits), digits) for part, digits in zip(parts, numbers))
