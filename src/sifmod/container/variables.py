"""Variables of a container: valid names and values."""

from __future__ import annotations

import re

from sifmod import names

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
VARIABLE_VALUE = re.compile(r"[^\x00\n]*")


def check_variable(name: object, value: object) -> None:
    """Check one variable that an easyconfig or a site sets in a container.

    Args:
        name: its name.
        value: its value.

    Raises:
        ValueError: sifmod can't set it; the message says why and what to write.
    """
    if not isinstance(name, str) or not VARIABLE_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not the name of an environment variable: use letters, digits and '_', and no digit at the "
            "start"
        )
    if name in names.RESERVED_VARIABLES:
        raise ValueError(f"sifmod sets {name} itself: remove it")
    if not isinstance(value, str) or not VARIABLE_VALUE.fullmatch(value):
        raise ValueError(f"write the value of {name} in quotes on one line, such as '1'")
