"""Valid names and versions: of modules and commands, of Python and its packages."""

from __future__ import annotations

import re
from typing import Optional

# A name or a version that becomes part of paths and of command lines.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")

# `major.minor`, as in python3.11.
PYTHON_VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}")

# Names as in PEP 508. Versions are wider than PEP 440, because Linux distributions have versions such as 1.1build1.
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!~-]{0,99}")


# A line of what is in user software: of what came from an index, and of what did not.
_LINE = re.compile(r"\s*([A-Za-z0-9._-]+)(?:==(\S+)| @ \S+  # (\S+))\s*")


def package_of(line: str) -> Optional[tuple[str, str]]:
    """Return name and version in a line of a list of user software; None if they are not valid."""
    found = _LINE.fullmatch(line)
    if not found:
        return None
    name, version = found[1], found[2] or found[3]
    return (name, version) if is_package(name, version) else None


def is_package(name: object, version: object) -> bool:
    """Return whether these can be the name and version of a package: one word each, and not an option of pip."""
    return (
        isinstance(name, str)
        and isinstance(version, str)
        and bool(_PACKAGE.fullmatch(name))
        and bool(_VERSION.fullmatch(version))
    )
