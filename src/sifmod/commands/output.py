"""What the verbs print: JSON for programs, tables for people."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding

_GAP = "  "

_COLOURS = MappingProxyType({OK: "green", NOTE: "blue", WARNING: "yellow", PROBLEM: "red"})


def echo_json(value: Any) -> None:
    """Print a value as indented JSON, in UTF-8; what can't be written so, such as odd file names, is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def echo_table(
    header: tuple[str, ...], rows: Sequence[Sequence[str]], *, colours: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print a table; on a terminal, and unless NO_COLOR is set, its header is bold and its first column coloured."""
    for number, line in enumerate(table(header, rows)):
        word = line.split(" ", 1)[0]
        if os.environ.get("NO_COLOR"):
            click.echo(line)
        elif number == 0:
            click.echo(click.style(line, bold=True))
        elif word in colours:
            click.echo(click.style(word, fg=colours[word]) + line[len(word) :])
        else:
            click.echo(line)


def echo_heading(text: str) -> None:
    """Print a line that stands above others: bold on a terminal, unless NO_COLOR is set."""
    click.echo(text if os.environ.get("NO_COLOR") else click.style(text, bold=True))


def echo_findings(findings: Sequence[Finding]) -> None:
    """Print findings as a table, coloured by severity."""
    rows = []
    for finding in findings:
        parts = (
            finding.what,
            f"why: {finding.why}" if finding.why else "",
            f"do: {finding.remedy}" if finding.remedy else "",
        )
        rows.append((finding.severity, finding.topic, "\n".join(filter(None, parts))))
    echo_table(("STATUS", "TOPIC", "FINDING"), rows, colours=_COLOURS)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Give the lines of a table, the header first; what is in the last column is not padded.

    A cell may have several lines: the others of its row are empty beside them.

    Args:
        header: titles of the columns.
        rows: the cells of each row.
    """
    lines = [tuple(header)]
    for row in rows:
        cells = [cell.split("\n") for cell in row]
        for number in range(max(map(len, cells))):
            lines.append(tuple(cell[number] if number < len(cell) else "" for cell in cells))
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
