"""The JSON schema of site files, for editors: made of the same keys that site files are read with."""

from __future__ import annotations

from typing import Any

from sifmod.site.keys import plain
from sifmod.site.settings import KEYS


def site_schema(*, users: bool = False) -> dict[str, Any]:
    """Return the JSON schema (draft 7, which editors of TOML know best) of a site file.

    Args:
        users: of the user's own settings instead, which can also name the site.
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
