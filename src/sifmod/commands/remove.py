"""`sifmod remove`: remove an installed container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json
from sifmod.eb.space import software_space
from sifmod.errors import InstallError
from sifmod.installed.base import built_on
from sifmod.installed.installation import find_installation
from sifmod.installed.modulepath import find_usable, known_installations
from sifmod.installed.removal import Removal, remove_leftovers
from sifmod.site.settings import load_site
from sifmod.text.size import size_text
from sifmod.usersoftware.state import PACKED


@click.command()
@click.argument("module", shell_complete=complete_modules)
@prefix_option
@click.option(
    "--keep-user-software",
    "keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=None,
    help="First copy user software to DIR: packed, with the list of its packages.",
)
@click.option("--delete-user-software", "delete", is_flag=True, help="Delete user software too.")
@click.option("--delete-other-files", "delete_others", is_flag=True, help="Delete files that sifmod did not install.")
@click.option("--old-images", is_flag=True, help="Remove only the image that the last rebuild replaced.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(
    module: str,
    prefix: Optional[Path],
    keep: Optional[Path],
    delete: bool,
    delete_others: bool,
    old_images: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove an installed container: its module, scripts and image.

    If users have installed something, keep it with --keep-user-software or delete it with --delete-user-software. Files
    that sifmod did not install are refused, and named. Links are removed but never followed, and nothing outside the
    software space is touched. To finish an interrupted removal, run the same command again.

    \b
    Examples:
      sifmod remove Python/3.11-demo-singularity
      sifmod remove Python/3.11-demo-singularity --keep-user-software ~/kept --yes
      sifmod remove --old-images Python/3.11-demo-singularity
    """
    if old_images and (keep or delete or delete_others):
        raise click.UsageError("--old-images removes nothing else: leave the other options out")
    if keep and delete:
        raise click.UsageError("--keep-user-software and --delete-user-software exclude each other")
    if as_json and not yes:
        raise click.UsageError("--json does not prompt: add --yes")
    space = software_space(prefix)
    try:
        item = find_installation(space, module)
    except InstallError:
        if remove_leftovers(space, module):
            _done(module, as_json, f"finished the interrupted removal of {module}")
            return
        item = find_usable(space, module, {} if prefix else os.environ)
        if item.root.is_relative_to(space.software):  # one of several versions must be named
            raise
    site = load_site()
    removal = Removal(item, say=lambda line: None if as_json else echo(line), ask_owner=site.ask_owner)
    removal.check()
    above = ", ".join(one.module for one in built_on(item, known_installations(space, os.environ, site)))
    if old_images:
        if above:
            echo_error(f"sifmod: the old image may be in use by {above}, built on it")
        _remove_old_images(removal, yes=yes, as_json=as_json)
        return
    _check(removal, above, is_decided=delete or keep is not None, delete_others=delete_others)
    if not yes:
        _confirm(removal, keep)
    removal.remove(keep=keep.expanduser().absolute() if keep else None, delete_others=delete_others)
    remove_leftovers(space, item.module)
    _done(item.module, as_json, f"removed {item.module}")


def _check(removal: Removal, above: str, *, is_decided: bool, delete_others: bool) -> None:
    """Refuse what would lose files of users, or that are not ours, and tell who loses the container."""
    removal.check_module_files()
    item, own = removal.installation, removal.users_own
    if item.is_loaded():
        echo_error(f"sifmod: {item.module} is loaded in this shell; afterwards run: module unload {item.module}")
    if above:
        echo_error(f"sifmod: built on it, and then without its image and its packages: {above}")
    if own and not is_decided:
        raise InstallError(
            f"'{item.root}' contains user files ({', '.join(path.name for path in own)}): keep them with "
            "--keep-user-software DIR or delete them with --delete-user-software"
        )
    if not delete_others:
        removal.check_others()


def _confirm(removal: Removal, keep: Optional[Path]) -> None:
    """Show what goes and what stays, and ask."""
    item = removal.installation
    echo(f"{item.module} in {item.root}, image {size_text(item.manifest.image_size)}")
    state = item.user_software
    for path in removal.users_own:
        fate = f"to be kept in {keep}" if keep else "to be deleted"
        if keep and state.state == PACKED and path == state.directory:
            fate = "not in use, to be deleted if it equals the packed file"
        echo(f"  user software: {path}, {fate}")
    for path in removal.others:
        echo(f"  not installed by sifmod: {path}, to be deleted")
    click.confirm("Remove it?", abort=True)


def _remove_old_images(removal: Removal, *, yes: bool, as_json: bool) -> None:
    paths = removal.installation.old_images
    if not yes and paths:
        for path in paths:
            echo(f"{path}, {size_text(path.stat().st_size)}")
        click.confirm("Remove it? Jobs that started before the last rebuild may still use it.", abort=True)
    removed = removal.remove_old_images() if paths else ()
    if as_json:
        echo_json({"removed": [str(path) for path in removed]})
    else:
        echo(f"removed {', '.join(map(str, removed))}" if removed else "there is no old image")


def _done(module: str, as_json: bool, line: str) -> None:
    if as_json:
        echo_json({"removed": module})
    else:
        echo(line)
