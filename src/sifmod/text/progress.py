"""Progress of long work: the library reports it, and the command line and the easyblock show it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from sifmod.text.size import size_text

_EVERY = 30  # seconds between two lines about the same step


class Step(Protocol):
    """One piece of work that takes long."""

    def advance(self, count: int) -> None:
        """Say that so many bytes more are done; 0 is a sign of life."""

    def tell(self, line: str) -> None:
        """Pass on the last line of the program that does the work."""


class Progress(Protocol):
    """Shows the steps of long work, one after the other."""

    def step(self, title: str, *, size: int = 0) -> AbstractContextManager[Step]:
        """Show a step until the context ends.

        Args:
            title: what is done, such as `copying demo.sif`.
            size: number of bytes that there are to do; 0 if nobody knows.
        """


class Quiet:
    """Progress that nobody sees."""

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:  # noqa: ARG002 - the protocol's
        """Show nothing."""
        yield self

    def advance(self, count: int) -> None:
        """Show nothing."""

    def tell(self, line: str) -> None:
        """Show nothing."""


QUIET = Quiet()


@dataclass(frozen=True)
class Lines:
    """Progress as lines, for logs: one about every half minute, so work that is soon done has none.

    Attributes:
        say: called with each line.
    """

    say: Callable[[str], object]

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:
        """Say how far a step is, now and then."""
        now = time.monotonic()
        yield _LinesOfAStep(self.say, title, size, begun=now, said=now)


@dataclass
class _LinesOfAStep:
    say: Callable[[str], object]
    title: str
    size: int
    begun: float
    said: float
    done: int = 0

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.said >= _EVERY:
            self.said = now
            self.say(f"... {self.title}: {measured(self.done, self.size, now - self.begun)}")

    def tell(self, _line: str) -> None:
        self.advance(0)


def measured(done: int, size: int, seconds: float) -> str:
    """Return how far a step is: bytes of bytes, speed and time left, or the time that has passed.

    Args:
        done: number of bytes that are done.
        size: number of bytes that there are to do; 0 if nobody knows.
        seconds: since the step began.
    """
    if not size:
        return ", ".join(filter(None, [size_text(done) if done else "", f"{_clock(seconds)} passed"]))
    speed = done / seconds if seconds > 0 else 0
    parts = [f"{size_text(done)} of {size_text(size)}"]
    if speed:
        parts += [f"{size_text(int(speed))}/s", f"{_clock((size - done) / speed)} left"]
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
