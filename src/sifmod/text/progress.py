"""Progress of long work: the library reports it, and the command line and the easyblock show it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from sifmod.text.size import size_text

_EVERY = 60  # seconds between two lines


class Step(Protocol):
    """One step of long work."""

    def advance(self, count: int) -> None:
        """Report that `count` more bytes are done; 0 if the step is still running."""

    def tell(self, line: str) -> None:
        """Pass on the last line of the program that does the work."""


class Progress(Protocol):
    """Shows the steps of long work, one after the other."""

    def step(self, title: str, *, size: int = 0) -> AbstractContextManager[Step]:
        """Show a step, such as `copying demo.sif`, until the context ends; its size is in bytes, 0 if unknown."""


class Quiet:
    """Progress that shows nothing."""

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:  # noqa: ARG002 - the protocol's
        """Show nothing."""
        yield self

    def advance(self, count: int) -> None:
        """Show nothing."""

    def tell(self, line: str) -> None:
        """Show nothing."""


QUIET = Quiet()


@dataclass
class Lines:
    """Progress as lines for logs, about one a minute, so that short work has none."""

    say: Callable[[str], object]
    said: float = field(default_factory=lambda: time.monotonic())

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:
        """Print the progress of a step now and then, also if nobody reports any."""
        step = _LinesOfAStep(self, title, size, begun=time.monotonic())
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(_EVERY):
                step.advance(0)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield step
        finally:
            ended.set()
            looking.join()  # a line that is printed while Python ends would abort it


@dataclass
class _LinesOfAStep:
    lines: Lines
    title: str
    size: int
    begun: float
    done: int = 0

    def advance(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.lines.said >= _EVERY:
            self.lines.said = now
            self.lines.say(f"... {self.title}: {measured(self.done, self.size, now - self.begun)}")

    def tell(self, _line: str) -> None:
        self.advance(0)


def measured(done: int, size: int, seconds: float) -> str:
    """Return the progress of a step: done and total bytes, speed and time left; without a total the elapsed time."""
    if not size:
        return ", ".join(filter(None, [size_text(done) if done else "", f"{clock(seconds)} passed"]))
    speed = done / seconds if seconds > 0 else 0
    parts = [f"{size_text(done)} of {size_text(size)}"]
    if speed:
        parts += [f"{size_text(int(speed))}/s", f"{clock((size - done) / speed)} left"]
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, and hours if there are some."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
