"""The order of versions that come from anywhere: what is no version comes first."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def version_order(text: str) -> Version:
    """Return what versions are compared and sorted by; that of `0` for text that is none (PEP 440)."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
