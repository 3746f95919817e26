"""Waiting for what another process does."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], object], limit: float = 240) -> bool:
    """Wait until something holds; whether it did within so many seconds."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def until(holds: Callable[[], object], limit: float = 240, *, said: Callable[[], str] = str) -> None:
    """Wait until something holds, or fail with what is said."""
    assert eventually(holds, limit), said()
