"""The notes of package managers in an image, in the two forms that several of them have."""

from __future__ import annotations

import json
import re
from typing import Any


def control_fields(paragraph: str) -> dict[str, str]:
    """Return the fields of a paragraph of dpkg and apt (deb-control(5)); of a field the first line."""
    return dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", paragraph, re.M))


def json_object(text: str) -> dict[str, Any]:
    """Return an object in JSON; empty if the text is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
