"""What a test does if this machine lacks what it needs."""

import os
from typing import NoReturn

import pytest


def lacking(message: str) -> NoReturn:
    """Skip the test on a laptop, and fail in CI, which must run every test."""
    if os.environ.get("CI"):
        pytest.fail(f"{message}, and CI must run every test", pytrace=False)
    pytest.skip(message)
