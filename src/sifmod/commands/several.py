"""Checks of several installations at once, with one display of how far they are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from typing import Callable

from sifmod.commands.progress import shown_progress
from sifmod.finding import Finding
from sifmod.host.parallel import called_in_threads
from sifmod.installed.installation import Installation
from sifmod.text.progress import QUIET, Progress, clock


def in_parallel(
    items: Sequence[Installation], check: Callable[[Installation, Progress], list[Finding]], *, doing: str, quiet: bool
) -> Iterator[tuple[Installation, list[Finding]]]:
    """Check installations, several at once, and yield them in order with their findings."""
    progress, begun = QUIET if quiet else shown_progress(), time.monotonic()
    if len(items) == 1:
        yield items[0], check(items[0], progress)
        return
    with called_in_threads(lambda item: check(item, QUIET), items) as results:
        for number, (item, result) in enumerate(zip(items, results), 1):
            each = (time.monotonic() - begun) / (number - 1) if number > 1 else 0
            left = f", {clock(each * (len(items) - number + 1))} left" if each else ""
            # one display: it ends before the findings are printed
            with progress.step(f"{doing} {number} of {len(items)}{left}: {item.module}") as step:
                while not wait([result], timeout=1).done:
                    step.advance(0)
                step.advance(0)
            yield item, result.result()
