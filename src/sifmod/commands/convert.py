"""`sifmod convert`: convert an easyconfig in the style of LUMI's containers."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import echo_error, echo_json, echo_whole
from sifmod.easyconfig.conversion import convert as converted
from sifmod.eb.evaluation import variables_of
from sifmod.host.files import write_new
from sifmod.site.settings import load_settings


@click.command()
@click.argument("easyconfig", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    default=None,
    help="Write to this file, or into this directory under the name that EasyBuild expects.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@site_option
@json_option
def convert(easyconfig: Path, output: Optional[Path], force: bool, site_name: str, as_json: bool) -> None:
    """Convert an easyconfig that installs a container with MakeCp to one for ContainerImage.

    EasyBuild evaluates the easyconfig, so its code runs. Parts that can't be converted are listed in the new easyconfig
    and on standard error. Settings that the site gives to every container are left out: name the site with --site.

    \b
    Examples:
      sifmod convert --site lumi PyTorch-2.2.0-rocm-5.6.1-python-3.10.eb
      sifmod convert PyTorch-2.2.0-rocm-5.6.1-python-3.10.eb -o easyconfigs/
    """
    site = load_settings(site=site_name).site
    result = converted(variables_of(easyconfig), site, origin=easyconfig.name)
    path = None
    if output is not None:
        path = output / result.file_name if output.is_dir() else output
        write_new(path, result.text, force=force)
    if as_json:
        notes = {"lost": list(result.lost), "look": list(result.look)}
        written = str(path) if path else None
        echo_json({"file_name": result.file_name, "written": written, **notes, "text": result.text})
        return
    for note in result.lost:
        echo_error(f"sifmod: not carried over: {note}")
    for note in result.look:
        echo_error(f"sifmod: note: {note}")
    if path is None:
        echo_whole(result.text)
    else:
        echo_whole(f"wrote {path}")
