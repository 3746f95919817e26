"""How the verbs print: JSON for programs, plain lines for scripts, wrapped and coloured lines on a terminal.

Rich wraps and colours. It is loaded only on a terminal, because loading it takes longer than most verbs. Elsewhere, and
with NO_COLOR or TERM=dumb, lines are plain and never wrapped. All text passes through `printable` here, wherever it
comes from.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Optional, TextIO

import click

from sifmod.errors import SifmodError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.text.printable import STEERING, columns, printable

if TYPE_CHECKING:
    from rich.console import Console

# The name of standard output, in options.
STANDARD_OUTPUT = "-"

_GAP = "  "
_LAST_SECOND = 253402300799  # of the year 9999, the last one that has a date

_COLOURS = MappingProxyType({OK: "green", NOTE: "blue", WARNING: "yellow", PROBLEM: "red"})


def is_terminal(stream: Optional[TextIO]) -> bool:
    """Return whether a stream is a terminal on which lines may be wrapped, coloured and redrawn; None is closed."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return stream.isatty()


def console(stream: TextIO) -> Console:
    """Return a Rich console for a terminal, which takes no text for markup."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def echo_json(value: Any) -> None:
    """Print a value as indented JSON in UTF-8; escape what controls a terminal or is not UTF-8 (odd file names)."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def echo(text: str = "", *, bold: bool = False) -> None:
    """Print lines for people, wrapped on a terminal."""
    text = printable(text)
    if not is_terminal(sys.stdout):
        click.echo(text)
        return
    from rich.text import Text

    console(sys.stdout).print(Text(text, style="bold" if bold else "", overflow="fold"))


def echo_error(text: str) -> None:
    """Print a message on standard error as one line, because users may copy a command or path from it."""
    click.echo(printable(text), err=True)


def echo_whole(text: str, *, colour: Optional[str] = None) -> None:
    """Print text to copy or redirect, such as a file: never wrapped, and unchanged unless printed to a terminal."""
    if sys.stdout and sys.stdout.isatty():
        text = printable(text)
    if colour and is_terminal(sys.stdout):
        text = click.style(text, fg=colour)
    click.echo(text, nl=not text.endswith("\n"))


def echo_findings(findings: Sequence[Finding]) -> None:
    """Print findings as a table, coloured by severity."""
    rows = []
    for finding in findings:
        parts = (
            finding.what,
            f"why: {finding.why}" if finding.why else "",
            f"from: {finding.origin}" if finding.origin and finding.severity != OK else "",
            f"do: {finding.remedy}" if finding.remedy else "",
        )
        rows.append((finding.severity, finding.topic, "\n".join(filter(None, parts))))
    echo_table(("STATUS", "TOPIC", "FINDING"), rows, colours=_COLOURS)


def echo_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, colours: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print a table; on a terminal, wrap its columns, print its header in bold and colour its first column."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not is_terminal(sys.stdout):
        for line in table(header, rows):
            click.echo(line)
        return
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for title in header:
        made.add_column(Text(title), overflow="fold")
    for first, *others in rows:
        made.add_row(Text(first, style=colours.get(first, "")), *map(Text, others))
    console(sys.stdout).print(made)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the plain lines of a table, the header first; the last column is not padded.

    A cell may have several lines; the other cells of the row are empty beside its further lines.
    """
    lines = [tuple(header)]
    for row in rows:
        cells = [cell.split("\n") for cell in row]
        for number in range(max(map(len, cells))):
            lines.append(tuple(cell[number] if number < len(cell) else "" for cell in cells))
    widths = [max(map(columns, column)) for column in zip(*lines)]
    for line in lines:
        yield _GAP.join(cell + " " * (width - columns(cell)) for cell, width in zip(line, widths)).rstrip()


def output_time() -> int:
    """Return the time for output that can be compared: `SOURCE_DATE_EPOCH`, else now."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if not given:
        return int(time.time())
    if not (given.isascii() and given.isdigit() and int(given[:20]) <= _LAST_SECOND):
        raise SifmodError(f"SOURCE_DATE_EPOCH is '{given}', not a number of seconds since 1970: correct or unset it")
    return int(given)
