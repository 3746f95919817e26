"""Checks of several installations at once, with one display of how far they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from typing import Callable

from sifmod.commands.progress import shown_progress
from sifmod.finding import Finding
from sifmod.host.parallel import called_in_threads
from sifmod.installed.installation import Installation
from sifmod.text.progress import QUIET, Progress


def in_parallel(
    items: Sequence[Installation], check: Callable[[Installation, Progress], list[Finding]], *, doing: str
) -> Iterator[tuple[Installation, list[Finding]]]:
    """Check installations, several at once, and yield them in order with their findings.

    Args:
        items: the installations.
        check: called with each, and with what shows its progress.
        doing: what it does, for the display, such as `verifying`.
    """
    progress = shown_progress()
    if len(items) == 1:
        yield items[0], check(items[0], progress)
        return
    with called_in_threads(lambda item: check(item, QUIET), items) as results:
        for number, (item, result) in enumerate(zip(items, results), 1):
            # one display: it ends before the findings are printed
            with progress.step(f"{doing} {number} of {len(items)}: {item.module}") as step:
                while not wait([result], timeout=1).done:
                    step.advance(0)
            yield item, result.result()
