"""`sifmod environment`: write an easyconfig for an image with the packages of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import click

from sifmod.commands.options import OutputPath, json_option, site_option
from sifmod.commands.output import echo_error
from sifmod.commands.writing import (
    check_names,
    commands_option,
    file_argument,
    force_option,
    like_option,
    proposed,
    taken_over,
    write_proposal,
)
from sifmod.errors import SifmodError
from sifmod.host.writing import refuse_existing
from sifmod.site.settings import load_settings

# The verb has its help without the libraries of the extra `environment`.
_IS_MISSING = ""
try:
    from sifmod.environment.conda import CondaSource, make_conda_environment
    from sifmod.environment.packagefile import AnySource, Kind, kind_of, read_packages
    from sifmod.environment.python import file_names, make_environment
except ImportError as error:
    _IS_MISSING = str(error)


@click.command("environment")
@click.argument("file", type=file_argument)
@click.option("--base", required=True, metavar="IMAGE|URI", help="Image to install the packages on.")
@click.option("--extra", "extras", multiple=True, help="Extra of the project in a pyproject.toml. May be repeated.")
@click.option("--group", "groups", multiple=True, help="Dependency group of the project. May be repeated.")
@click.option("--on-top", is_flag=True, help="Install the packages into user software, not into a new image.")
@click.option("--name", default="", help="Name of the module (default: the project's, or 'environment').")
@click.option("--version", default="", help="Version of the module (default: the project's, or '1.0').")
@commands_option
@like_option
@click.option(
    "-o", "--output", default=".", type=OutputPath(), metavar="DIR", help="Folder to write into (default: this one)."
)
@force_option
@site_option
@json_option
def environment(
    file: Path,
    base: str,
    extras: tuple[str, ...],
    groups: tuple[str, ...],
    on_top: bool,
    name: str,
    version: str,
    commands: tuple[str, ...],
    like: Optional[Path],
    output: str,
    force: bool,
    site_name: str,
    as_json: bool,
) -> None:
    """Write an easyconfig for an image with the packages of a file.

    FILE is a requirements file of pip (NAME.txt, NAME.in), a lock (pylock.toml, uv.lock), a pyproject.toml, whose
    dependencies are taken, an environment.yml of conda, or an explicit list of conda. A definition file and a lock
    are written beside the easyconfig: eb builds an image from the base in which the base's own packages are kept.
    With --on-top the image is the base's, and the packages are in user software.

    Exit status: 0; 1 if the output exists, OTHER.eb is not a container easyconfig, or FILE can't be read or locked for
    the base; 3 if a value can't be used; 4 if the site's settings are wrong; 5 if the base is not an image or can't be
    pulled; 6 if there is no container runtime; 7 if the base's Python does not run.

    \b
    Examples:
      sifmod environment requirements.txt --base pytorch.sif --name lab
      sifmod environment pyproject.toml --base pytorch.sif --extra plots --on-top
      sifmod environment pylock.toml --base docker://nvcr.io/nvidia/pytorch:24.03
      sifmod environment environment.yml --base docker://mambaorg/micromamba:2
    """
    if _IS_MISSING:
        raise SifmodError(
            f"environments need a newer library than sifmod's Python has ({_IS_MISSING}): pip install "
            "'sifmod[environment]'"
        )
    check_names(name, version)
    folder = Path(output)
    if not folder.is_dir():
        raise click.UsageError("an environment has several files: name a folder with --output")
    source = _source(file, extras, groups, on_top=on_top)
    site = load_settings(site=site_name).site
    similar, notes = taken_over(like)
    notes += source.notes
    name, version = source.named(name, version)
    found, proposal = proposed(
        base,
        site,
        name=name,
        version=version,
        like=similar,
        commands=commands,
        # eb builds from the base wherever it lies, so a base that was pulled for another module is not pulled again
        pulled_for=name if on_top else "",
    )
    if isinstance(source, CondaSource):
        made = make_conda_environment(source, found, proposal, site, say=echo_error)
    else:
        # before the base is run
        refuse_existing([] if force else [folder / one for one in file_names(proposal, on_top=on_top)])
        made = make_environment(source, found, proposal, site, on_top=on_top, say=echo_error)
    write_proposal(
        folder,
        made.files,
        made.proposal,
        notes=[*notes, *made.proposal.notes],
        force=force,
        as_json=as_json,
        options=(lambda target: found.options_of_eb(target, site)) if on_top else None,
    )


def _source(file: Path, extras: tuple[str, ...], groups: tuple[str, ...], *, on_top: bool) -> AnySource:
    """Return what the file asks for, if the options fit its kind."""
    kind = kind_of(file)
    if (extras or groups) and kind is not Kind.PROJECT:
        raise click.UsageError(f"--extra and --group are for a pyproject.toml, and '{file}' is {kind.value}")
    source = read_packages(file, kind, extras=extras, groups=groups)
    if on_top and isinstance(source, CondaSource):
        raise click.UsageError("a conda environment can't be put on top of an image: leave out --on-top")
    return source
