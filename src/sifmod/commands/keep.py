"""`sifmod keep`: copy the user software of installed containers elsewhere, and put it back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json
from sifmod.eb.space import software_space
from sifmod.errors import InstallError
from sifmod.installed.installation import find_installations
from sifmod.installed.keeping import keep as kept
from sifmod.installed.keeping import restore as restored
from sifmod.installed.modulepath import find_usable


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.argument("modules", nargs=-1, metavar="[MODULE]...", shell_complete=complete_modules)
@prefix_option
@click.option("--restore", is_flag=True, help="Put the copy in DIR/MODULE back into the installation of MODULE.")
@json_option
def keep(folder: Path, modules: tuple[str, ...], prefix: Optional[Path], restore: bool, as_json: bool) -> None:
    """Copy what users have installed into DIR, of all installed containers or of the named ones.

    Packed files with their layers, lists and SHA-256, or the directory if it is in use, in a folder for each module,
    with a record of all files. Nothing in the installation is changed. What DIR has already is not written over.

    With --restore, puts it back: into an installation with the same Python and venv, in which users have nothing. All
    files are compared with the record first. If it is interrupted, run the same command again.

    Exit status: 0, or 1 if the user software of a module could not be copied.

    \b
    Examples:
      sifmod keep /backup/2026-11-24
      sifmod keep ~/kept PyTorch/2.2.0
      sifmod keep ~/kept PyTorch/2.2.0 --restore
    """
    space, environ = software_space(prefix), {} if prefix else os.environ
    folder = folder.expanduser().absolute()

    def say(line: str) -> None:
        if not as_json:
            echo(line)

    if restore:
        if len(modules) != 1:
            raise click.UsageError("--restore needs one MODULE")
        item = find_usable(space, modules[0], environ)
        source = folder / item.module.replace("/", "-")
        restored(item, source, say=say)
        if as_json:
            echo_json({"restored": item.module, "from": str(source)})
        else:
            echo(f"restored {item.module} from {source}; in shells that have it loaded: module load {item.module}")
        return
    found = find_installations(space)
    items = [find_usable(space, name, environ) for name in modules] or list(found.installations)
    problems = [] if modules else [item.problem for item in found.damaged]
    folders: dict[str, str] = {}
    for item in items:
        try:
            folders[item.module] = kept(item, folder, say=say)
        except InstallError as error:
            problems.append(f"{item.module}: {error}")
            continue
        if modules or folders[item.module]:
            say(f"{item.module}: {folders[item.module] or 'no user software'}")
    for problem in problems:
        echo_error(f"sifmod: {problem}")
    if as_json:
        echo_json({"kept": {module: path or None for module, path in folders.items()}, "problems": problems})
    sys.exit(1 if problems else 0)
