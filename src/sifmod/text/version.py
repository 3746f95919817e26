"""The order of arbitrary version strings; an invalid version comes first."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def version_order(text: str) -> Version:
    """Return the sort key of a version (PEP 440); an invalid version sorts like `0`."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
