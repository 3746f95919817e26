"""Standard output as a file that can be full; loaded by every command, so it loads nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional, TextIO, cast

from sifmod.errors import OutputError


class _CheckedOutput:
    """Standard output whose errors are told from those of other files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._checked():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._checked():
            self._stream.flush()

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.EPIPE:  # Click ends silently then
                raise
            raise OutputError(f"standard output can't be written: {error.strerror}") from error


def checked_output(stream: Optional[TextIO]) -> TextIO:
    """Return a stream that raises an OutputError if it can't be written, such as to a full disk; None is closed."""
    return cast(TextIO, _CheckedOutput(stream)) if stream else opened()


def opened(stream: Optional[TextIO] = None) -> TextIO:
    """Return a stream, or for a closed one the null device: Click before 8.1.4 can't print to none."""
    return stream or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - as long as the process lives


def discard_output() -> None:
    """Discard what standard output could not write: Python would try it again at its end, and print an exception."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
