"""`sifmod outdated`: ask registries for newer images of installed containers."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_table, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.eb.space import software_space
from sifmod.installed.installation import find_installations
from sifmod.installed.modulepath import find_usable
from sifmod.site.settings import load_site
from sifmod.text.printable import few, one_line
from sifmod.text.size import counted
from sifmod.upkeep.outdated import standings


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...", shell_complete=complete_modules)
@prefix_option
@json_option
def outdated(modules: tuple[str, ...], prefix: Optional[Path], as_json: bool) -> None:
    """Ask registries for newer images of all installed containers, or of the named ones.

    Shows whether the image's tag is another image now, newer tags of the same form, and the command to type next.
    Modules from files, definitions and directories are left out.

    Exit status: 0; 20 if a module is outdated; 1 if the manifest of an installation can't be read.

    \b
    Examples:
      sifmod outdated
      sifmod outdated PyTorch/2.3.0-ngc
      sifmod outdated --prefix /project/software --json
    """
    space = software_space(prefix)
    installations = find_installations(space)
    environ = {} if prefix else os.environ
    items = [find_usable(space, module, environ) for module in modules] or list(installations.installations)
    damaged = [] if modules else installations.damaged
    for item in damaged:
        echo_error(f"sifmod: {item.problem}")
    with shown_progress().step("asking registries"):
        answers = standings(items, load_site())
    status = 20 if any(one.is_outdated for one in answers) else 1 if damaged else 0
    if as_json:
        echo_json([{**asdict(one), "moved": one.has_moved, "outdated": one.is_outdated} for one in answers])
        sys.exit(status)
    rows = []
    for one in answers:
        tag = "unknown" if not one.now or not one.digest else "has moved" if one.has_moved else "unchanged"
        rows.append((one.module, one.tag or "-", tag, few(one.newer, 1) or "-"))
    if rows:
        echo_table(("MODULE", "TAG", "IMAGE OF THE TAG", "NEWER TAG"), [tuple(map(one_line, row)) for row in rows])
    for one in answers:
        if one.following:
            echo_whole(one.following)
    problems: dict[str, list[str]] = {}
    for one in answers:
        if one.problem:
            problems.setdefault(one.problem, []).append(one.module)
    for problem, affected in problems.items():
        echo_error(f"note: {', '.join(affected)}: {problem}")
    others = len(items) - len(answers)
    echo(f"{sum(one.is_outdated for one in answers)} of {counted(len(answers), 'module')} outdated")
    if others:
        echo_error(f"note: {counted(others, 'other module')} not from a registry")
    sys.exit(status)
