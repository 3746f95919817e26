"""Show long work of EasyBuild's steps: in EasyBuild's own display if it has one, else as trace output."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sifmod.text.printable import printable
from sifmod.text.progress import Lines, Progress, Step, measured


def easybuild_progress() -> Progress:
    """Return the display of long work while `eb` runs.

    If `eb` draws progress bars (Rich is installed, and the terminal and its options allow them), it draws them all the
    time. Rich allows no second display, so the work is shown in one of EasyBuild's bars.
    """
    from easybuild.tools.output import PROGRESS_BAR_EXTENSIONS, get_progress_bar, show_progress_bars
    from easybuild.tools.utilities import trace_msg

    # while it draws, standard output is a proxy, which in Rich before 15 is no terminal
    stdout = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    if show_progress_bars() and stdout.isatty():
        # unlike that of downloads, its text can be set, and extensions are installed in another step
        return _Bars(get_progress_bar(PROGRESS_BAR_EXTENSIONS))
    return Lines(lambda line: trace_msg(printable(line)))


@dataclass(frozen=True)
class _Bars:
    display: Any  # rich.progress.Progress

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:
        """Show a step as a line of EasyBuild's display, until it ends."""
        task = self.display.add_task("", total=size or None)
        bar = _Bar(self.display, task, title, size, begun=time.monotonic())
        try:
            bar.advance(0)
            yield bar
        finally:
            self.display.remove_task(task)


@dataclass
class _Bar:
    display: Any
    task: Any
    title: str
    size: int
    begun: float
    done: int = 0
    line: str = ""

    def advance(self, count: int) -> None:
        from rich.markup import escape

        self.done += count
        state = measured(self.done, self.size, time.monotonic() - self.begun)
        text = ": ".join(filter(None, [f"{self.title}: {state}", self.line]))
        self.display.update(self.task, completed=self.done, description=escape(printable(text)))

    def tell(self, line: str) -> None:
        self.line = line
        self.advance(0)
