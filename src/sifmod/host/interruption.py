"""Signals that end a process, as exceptions, so that unfinished work is undone and locks are released first."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Optional

# A closed terminal, Ctrl-C, Ctrl-\\, a batch system's time limit, and what libraries do to their own process.
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGABRT)


class Interruption:
    """Between `start` and `stop`, signals that would end the process wait for a block of `delivered`, and raise there.

    What is done outside of these blocks is not interrupted, such as to take things back after a first signal. A signal
    that is ignored, as by nohup, stays so.
    """

    def __init__(self) -> None:
        self._earlier: dict[signal.Signals, Any] = {}
        self._pending: Optional[int] = None
        self._is_open = False

    def start(self) -> None:
        """Install the signal handlers; a second call does nothing."""
        if self._earlier:
            return
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._earlier[number] = signal.signal(number, self._handle)

    def stop(self) -> None:
        """Restore the earlier signal handlers; a signal that still waits is sent again."""
        while self._earlier:
            signal.signal(*self._earlier.popitem())
        if self._pending is not None:
            number, self._pending = self._pending, None
            signal.raise_signal(number)

    @contextlib.contextmanager
    def delivered(self) -> Iterator[None]:
        """Let signals raise in the block: KeyboardInterrupt for Ctrl-C, else SystemExit with 128 and their number."""
        self._is_open = True
        try:
            if self._pending is not None:
                self._raise(self._pending)
            yield
        finally:
            self._is_open = False

    def _handle(self, number: int, _frame: Optional[FrameType]) -> None:
        if self._is_open:
            self._raise(number)
        self._pending = number

    def _raise(self, number: int) -> None:
        # only one: the next signal must not interrupt the clean-up after the first
        self._is_open, self._pending = False, None
        if number == signal.SIGINT:
            raise KeyboardInterrupt("keyboard interrupt")
        raise SystemExit(128 + number)
