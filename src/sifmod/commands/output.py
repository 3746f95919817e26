"""What the verbs print: JSON for programs, tables for people."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from sifmod.table import table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")


def echo_json(value: Any) -> None:
    """Print a value as indented JSON, in UTF-8."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


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
