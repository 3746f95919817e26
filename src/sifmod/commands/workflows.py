"""`sifmod workflows`: write the files through which workflow managers find installed containers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_whole
from sifmod.eb.space import SoftwareSpace, software_space
from sifmod.installed.installation import Installation, find_installations
from sifmod.site.settings import load_site
from sifmod.text.size import counted
from sifmod.upkeep.workflows import link_for_nextflow, reframe_test, snakemake_profile


@click.group()
def workflows() -> None:
    """Write what Nextflow, Snakemake and ReFrame need to find installed containers.

    \b
    Examples:
      sifmod workflows nextflow /project/nextflow
      sifmod workflows snakemake >profile/config.yaml
      sifmod workflows reframe >containers.py
    """


def _installations(space: SoftwareSpace) -> Sequence[Installation]:
    """Return the installations; damaged ones are named on standard error and left out."""
    found = find_installations(space)
    for item in found.damaged:
        echo_error(f"sifmod: {item.problem}")
    return found.installations


@workflows.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@prefix_option
@json_option
def nextflow(folder: Path, prefix: Optional[Path], as_json: bool) -> None:
    """Make links with Nextflow's names in DIR.

    DIR is its libraryDir. Links whose image is gone are removed.

    Exit status: 0; 20 if another file of such a name was left alone.

    \b
    Examples:
      sifmod workflows nextflow /project/nextflow
    """
    space = software_space(prefix)
    repositories = map(Path, load_site().image_repositories)
    links = link_for_nextflow(_installations(space), folder, images=(space.software, *repositories))
    if as_json:
        echo_json(asdict(links))
    else:
        for name in links.kept:
            echo_error(f"note: '{folder / name}' was made by somebody else, and was left alone")
        for name in links.removed:
            echo(f"removed {name}: its image is gone")
        echo(f"{counted(len(links.linked), 'link')} in {folder}")
    sys.exit(20 if links.kept else 0)


@workflows.command()
@prefix_option
def snakemake(prefix: Optional[Path]) -> None:
    """Print lines for a profile's config.yaml.

    They have the newest module of each name.

    \b
    Examples:
      sifmod workflows snakemake >profile/config.yaml
    """
    echo_whole(snakemake_profile(_installations(software_space(prefix))))


@workflows.command()
@prefix_option
def reframe(prefix: Optional[Path]) -> None:
    """Print a test file for ReFrame.

    It loads each module and runs a command in it.

    \b
    Examples:
      sifmod workflows reframe >containers.py
    """
    echo_whole(reframe_test(_installations(software_space(prefix))))
