"""Images that look like a small Linux, as folders."""

from pathlib import Path

import pytest

from ..imagetrees import linux


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Give the root folder of a small Debian with its own Python."""
    return linux(tmp_path)
