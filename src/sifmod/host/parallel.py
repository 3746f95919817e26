"""Calls in several threads at once, for work that mostly waits: for commands, and for a file system."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Callable, TypeVar

from sifmod.host.command import CommandGroup

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# Others work on a login node too.
_MOST_THREADS = 8


@contextlib.contextmanager
def called_in_threads(function: Callable[[Item], Answer], items: Sequence[Item]) -> Iterator[list[Future[Answer]]]:
    """Call a function with each item, in several threads, and yield the future results in the order of the items.

    If the block raises an exception, such as KeyboardInterrupt, the commands that the calls have started are ended, and
    no call is waited for.
    """
    results: list[Future[Answer]] = [Future() for _item in items]
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(items)):
        waiting.put(index)
    commands = CommandGroup()

    def work() -> None:
        commands.join()
        with contextlib.suppress(queue.Empty):
            while True:
                index = waiting.get_nowait()
                try:
                    results[index].set_result(function(items[index]))
                except BaseException as error:
                    results[index].set_exception(error)

    try:
        for _number in range(min(len(items), _MOST_THREADS, 2 * len(os.sched_getaffinity(0)))):
            # not a ThreadPoolExecutor's, which Python waits for at its end: one may be reading an image of many GB
            threading.Thread(target=work, daemon=True).start()
        yield results
    except BaseException:
        commands.end()
        raise
