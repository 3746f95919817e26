"""What the verbs print: JSON for programs, tables for people."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from sifmod.errors import SifmodError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.table import table

_COLOURS = MappingProxyType({OK: "green", NOTE: "blue", WARNING: "yellow", PROBLEM: "red"})

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")


def echo_json(value: Any) -> None:
    """Print a value as indented JSON, in UTF-8; what can't be written so, such as odd file names, is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a text file, whole or not at all.

    Args:
        path: the file.
        text: its content.
        force: whether a file that exists is replaced.

    Raises:
        SifmodError: it exists, or can't be written.
    """
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".sifmod-", encoding="utf-8", delete=False
        ) as draft:
            draft.write(text)
        try:
            umask = os.umask(0)
            os.umask(umask)
            Path(draft.name).chmod(0o666 & ~umask)
            if force:
                Path(draft.name).replace(path)
            else:
                os.link(draft.name, path)
        finally:
            Path(draft.name).unlink(missing_ok=True)
    except FileExistsError as error:
        raise SifmodError(f"'{path}' exists: choose another name, or write over it with --force") from error
    except OSError as error:
        raise SifmodError(f"'{path}' can't be written: {error.strerror}") from error


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
