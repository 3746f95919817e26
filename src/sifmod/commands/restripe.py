"""`sifmod restripe`: give installed images the site's layout on Lustre."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json
from sifmod.commands.progress import shown_progress
from sifmod.eb.space import software_space
from sifmod.errors import InstallError
from sifmod.host.striping import restripe as restriped
from sifmod.installed.installation import find_installation, find_installations
from sifmod.installed.placement import unstriped_files
from sifmod.site.settings import load_site
from sifmod.text.size import counted, size_text


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...", shell_complete=complete_modules)
@prefix_option
@click.option("--dry-run", is_flag=True, help="Only name the files.")
@json_option
def restripe(modules: tuple[str, ...], prefix: Optional[Path], dry_run: bool, as_json: bool) -> None:
    """Spread images and packed files over the storage targets of Lustre, as `stripe` in the site file says.

    Takes those of all installed containers, or of the named ones, that lie on one target, as `sifmod verify` reports
    them. `lfs migrate` copies each and then swaps the copy in, so jobs may read it meanwhile.

    Exit status: 0, or 1 if a file could not be changed.

    \b
    Examples:
      sifmod restripe --dry-run
      sifmod restripe PyTorch/2.2.0
      sifmod restripe --prefix /project/software --json
    """
    space, site = software_space(prefix), load_site()
    if not site.stripe:
        raise click.UsageError("the site has no layout for large files: set 'stripe' in its file, or SIFMOD_STRIPE")
    found = [find_installation(space, name) for name in modules] or list(find_installations(space).installations)
    paths = [path for item in found for path in unstriped_files(item, site)]
    done, problems = [], []
    for path in paths:
        try:
            if not dry_run:
                with shown_progress().step(f"spreading {path.name}, {size_text(path.stat().st_size)}"):
                    restriped(path, site.stripe)
        except InstallError as error:
            problems.append(str(error))
            echo_error(f"sifmod: {error}")
            continue
        done.append(str(path))
        if not as_json:
            echo(f"{'would spread' if dry_run else 'spread'} {path}")
    if as_json:
        echo_json({"stripe": site.stripe, "dry_run": dry_run, "files": done, "problems": problems})
    elif not paths:
        echo(f"{counted(len(found), 'installation')}: no large file lies on one target")
    sys.exit(1 if problems else 0)
