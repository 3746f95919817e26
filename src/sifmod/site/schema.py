"""The JSON schema of site files, for editors: generated from the keys of `Site`."""

from __future__ import annotations

from typing import Any

from sifmod.site.keys import plain
from sifmod.site.settings import KEYS


def site_schema(*, users: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a site file, in draft 7, which TOML editors support best.

    Args:
        users: whether to return the schema of the user's own settings, which can also name the site.
    """
    properties: dict[str, Any] = {
        key.name: {"description": key.help_text, "default": plain(key.default), **key.kind.schema}
        for key in KEYS.values()
    }
    if users:
        properties["site"] = {"description": "Name of a shipped site, or path of a site file.", "type": "string"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "the user's settings of sifmod" if users else "site file of sifmod",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
