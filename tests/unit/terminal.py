"""A pseudo-terminal for the command line."""

import contextlib
import io
import os
import pty
import re
import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType
from unittest import mock

from sifmod import cli


def on_a_terminal(
    *words: str, columns: int = 200, with_errors: bool = True, environ: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return what `sifmod` prints on a terminal, that on standard error too unless `with_errors` is false."""
    ours, terminal = pty.openpty()
    printed: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, printed))
    reader.start()
    variables = {"TERM": "xterm", "COLUMNS": str(columns), **environ}
    try:
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(os.fdopen(terminal, "w", encoding="utf-8"))
            stack.enter_context(mock.patch.dict(os.environ, variables))
            errors = stream if with_errors else io.StringIO()
            stack.enter_context(mock.patch.multiple(sys, argv=["sifmod", *words], stdout=stream, stderr=errors))
            stack.enter_context(contextlib.suppress(SystemExit))
            cli.main()
    finally:
        reader.join()
        os.close(ours)
    return b"".join(printed).decode().replace("\r\n", "\n")


def _read(descriptor: int, printed: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # Linux says EIO once the other side is closed
        while part := os.read(descriptor, 65536):
            printed.append(part)


def without_colour(text: str) -> str:
    """Return text without what colours it."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)
