"""`sifmod new`: write an easyconfig for an image."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Optional

import click

from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import echo_error, echo_json, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.easyconfig.newimage import file_image, pulled_image
from sifmod.easyconfig.proposal import TAKEN_OVER, checked_name, propose
from sifmod.easyconfig.text import easyconfig_text, read_easyconfig
from sifmod.host.files import write_new
from sifmod.site.settings import load_settings

STANDARD_OUTPUT = "-"


@click.command("new")
@click.argument("image", metavar="IMAGE|URI", type=click.Path())
@click.option("--name", default="", help="Name of the module (default: the main package's).")
@click.option("--version", default="", help="Version of the module (default: the main package's).")
@click.option(
    "--like",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OTHER.eb",
    help="Easyconfig of a similar container: take over its parameters where they still apply.",
)
@click.option(
    "-o",
    "--output",
    default="",
    type=click.Path(),
    metavar="FILE|DIR|-",
    help="Where to write it (default: NAME-VERSION.eb in this directory); '-' is standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@site_option
@json_option
def new(
    image: str, name: str, version: str, like: Optional[Path], output: str, force: bool, site_name: str, as_json: bool
) -> None:
    """Write an easyconfig for an image, based on its contents.

    IMAGE is a SIF. The image of a URI such as docker://debian:12 is pulled into EasyBuild's source path, where eb finds
    it again.

    Exit status: 0; 1 if the output exists or OTHER.eb is not a container easyconfig; 3 if a value can't be used; 4 if
    the site's settings are wrong; 5 if IMAGE is not an image or can't be pulled.

    \b
    Examples:
      sifmod new pytorch.sif
      sifmod new docker://nvcr.io/nvidia/pytorch:24.03-py3 --output ~/easyconfigs
      sifmod new pytorch-new.sif --like PyTorch-2.2.0-rocm-5.6.1.eb
      sifmod new tools.sif --name tools --version 1.0 -o - | less
    """
    # before a pull, which names a folder after the module
    for key, value in (("name", name), ("version", version)):
        if value:
            checked_name(key, value)
    site = load_settings(site=site_name).site
    notes: list[str] = []
    similar: dict[str, Any] = {}
    if like:
        similar, computed = read_easyconfig(like)
        notes += [f"{one} was not taken over, because {like.name} computes it" for one in computed if one in TAKEN_OVER]
    is_uri = ":" in image and not Path(image).exists()
    progress = shown_progress()
    if is_uri:
        found = pulled_image(image, site, name=name, say=_say, progress=progress)
    else:
        found = file_image(Path(image), say=_say, progress=progress)
    proposal = propose(
        found.inspection, site, sha256=found.sha256, uri=found.uri, name=name, version=version, like=similar
    )
    found.settle(str(proposal.parameters["name"]))
    text = easyconfig_text(proposal.parameters, comments=[f"Written by sifmod new from {found.origin}: review it."])
    target = None if output == STANDARD_OUTPUT else _target(Path(output), proposal.file_name)
    if target:
        write_new(target, text, force=force)
    notes += proposal.notes
    if as_json:
        echo_json({"file": str(target or ""), "parameters": proposal.parameters, "notes": notes, "text": text})
        return
    if target is None:
        echo_whole(text)
    for note in notes:
        _say(f"note: {note}")
    if target:
        echo_whole(f"wrote {target}")
        options = found.options_of_eb(target, site)
        echo_whole(f"install it with: eb {' '.join([*options, shlex.quote(str(target))])}")


def _say(line: str) -> None:
    echo_error(line)


def _target(output: Path, file_name: str) -> Path:
    return output / file_name if output.is_dir() else output
