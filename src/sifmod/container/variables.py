"""Variables of a container: which names they may have."""

from __future__ import annotations

import re

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
