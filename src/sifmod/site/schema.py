"""The JSON schemas of a site's files, for editors: generated from their keys, in draft 7, which they support best."""

from __future__ import annotations

from typing import Any

from sifmod.site.advisory import FILE_KEYS
from sifmod.site.keys import TEXT, Key, table_schema
from sifmod.site.settings import KEYS

_SITE = Key("site", TEXT, "Name of a shipped site, or path of a site file.", "")


def site_schema(*, users: bool = False) -> dict[str, Any]:
    """Return the schema of a site file, or of the user's own settings, which can also name the site."""
    if users:
        return _schema("the user's settings of sifmod", *KEYS.values(), _SITE)
    return _schema("site file of sifmod", *KEYS.values())


def advisories_schema() -> dict[str, Any]:
    """Return the schema of a file of advisories."""
    return _schema("advisory file of sifmod", *FILE_KEYS.values())


def _schema(title: str, *keys: Key) -> dict[str, Any]:
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **table_schema(keys=keys)}
