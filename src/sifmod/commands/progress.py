"""How the command line shows long work: a bar or a spinner on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sifmod.commands.output import console, echo_error, is_terminal
from sifmod.text.printable import printable
from sifmod.text.progress import Lines, Progress, Step

if TYPE_CHECKING:
    import rich.progress


def shown_progress() -> Progress:
    """Return the display of long work on standard error."""
    return _Bars() if is_terminal(sys.stderr) else Lines(echo_error)


class _Bars:
    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:
        """Show a bar if the size is known, else a spinner; remove it at the end."""
        from rich import progress as bars

        about = bars.TextColumn("{task.description}", markup=False)
        line = bars.TextColumn("{task.fields[line]}", markup=False)
        columns: tuple[bars.ProgressColumn, ...] = (bars.SpinnerColumn(), about, bars.TimeElapsedColumn(), line)
        if size:
            speed, left = bars.TransferSpeedColumn(), bars.TimeRemainingColumn()
            columns = (about, bars.BarColumn(), bars.DownloadColumn(), speed, left)
        with bars.Progress(*columns, console=console(sys.stderr), transient=True) as display:
            yield _Bar(display, display.add_task(printable(title), total=size or None, line=""))


@dataclass(frozen=True)
class _Bar:
    display: rich.progress.Progress
    task: rich.progress.TaskID

    def advance(self, count: int) -> None:
        self.display.advance(self.task, count)

    def tell(self, line: str) -> None:
        self.display.update(self.task, line=printable(line))
