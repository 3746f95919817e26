"""`sifmod new`: write an easyconfig for an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import STANDARD_OUTPUT
from sifmod.commands.writing import (
    check_names,
    commands_option,
    force_option,
    like_option,
    name_option,
    output_option,
    place_of,
    proposed,
    taken_over,
    version_option,
    write_proposal,
)
from sifmod.easyconfig.buildfile import base_comment, is_build_file, propose_build, read_build_file
from sifmod.easyconfig.proposal import Proposal
from sifmod.easyconfig.text import easyconfig_text
from sifmod.site.settings import load_settings


@click.command("new")
@click.argument("image", metavar="IMAGE|URI|DOCKERFILE", type=click.Path())
@name_option
@version_option
@commands_option
@like_option
@output_option
@force_option
@site_option
@json_option
def new(
    image: str,
    name: str,
    version: str,
    commands: tuple[str, ...],
    like: Optional[Path],
    output: str,
    force: bool,
    site_name: str,
    as_json: bool,
) -> None:
    """Write an easyconfig for an image, based on its contents.

    IMAGE is a SIF, a Dockerfile (Dockerfile, Containerfile, NAME.Dockerfile) or a definition file (NAME.def). The image
    of a URI such as docker://debian:12 is pulled into EasyBuild's source path, where eb finds it again.

    If the image is for a program, such as samtools, name, version and commands are those of its package, as conda,
    dpkg or RPM have noted them, and the module can be loaded beside others. Otherwise the module provides its Python.

    A Dockerfile or a definition file is read, not built: the easyconfig is written beside it, names its base image, the
    files that it copies and the arguments that have no value, and eb builds it.

    An image with the packages of a file is for `sifmod environment`, a module on top of another one for `sifmod on`, a
    recipe of SHPC for `sifmod convert`.

    Exit status: 0; 1 if the output exists, or OTHER.eb is not a container easyconfig; 3 if a value can't be used; 4 if
    the site's settings are wrong; 5 if IMAGE is not an image or can't be pulled; 6 if there is no container runtime.

    \b
    Examples:
      sifmod new pytorch.sif
      sifmod new docker://nvcr.io/nvidia/pytorch:24.03-py3 --output ~/easyconfigs
      sifmod new pytorch-new.sif --like PyTorch-2.2.0-rocm-5.6.1.eb
      sifmod new docker://quay.io/biocontainers/samtools:1.9--h91753b0_8
      sifmod new containers-storage:localhost/mytool:1.0
      sifmod new samtools.Dockerfile
      sifmod new image.def --name demo --version 1.0
      sifmod new emboss.sif --commands 'need*' --commands water
      sifmod new tools.sif --name tools --version 1.0 -o - | less
    """
    check_names(name, version)
    site = load_settings(site=site_name).site
    similar, notes = taken_over(like)
    options: Optional[Callable[[Path], Sequence[str]]] = None
    if is_build_file(Path(image)):
        build_file = read_build_file(Path(image))
        proposal = propose_build(build_file, site, name=name, version=version, like=similar, commands=commands)
        path = _beside(build_file.path, proposal, output)
        origin, base = build_file.path.name, base_comment(build_file, site, notes)
    else:
        found, proposal = proposed(
            image, site, name=name, version=version, like=similar, commands=commands, pulled_for=name
        )
        path = place_of(output, proposal)
        origin, base = found.origin, ""
        options = partial(found.options_of_eb, site=site)
    comments = [f"Written by sifmod new from {origin}: review it.", *filter(None, [base])]
    write_proposal(
        path.parent,
        {path.name: easyconfig_text(proposal.parameters, comments=comments)},
        proposal,
        notes=[*notes, *proposal.notes],
        output=output,
        force=force,
        as_json=as_json,
        options=options,
    )


def _beside(build_file: Path, proposal: Proposal, output: str) -> Path:
    """Return the path of the easyconfig for a Dockerfile or a definition file."""
    folder = build_file.parent
    path = folder / proposal.file_name if output in ("", STANDARD_OUTPUT) else place_of(output, proposal)
    if path.parent.resolve() != folder.resolve():
        raise click.UsageError(f"eb looks for {build_file.name} beside the easyconfig: write into '{folder}'")
    return path
