"""`sifmod convert`: convert easyconfigs in the style of LUMI's containers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

import click

from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import echo_error, echo_json, echo_whole
from sifmod.easyconfig.activation import with_conda
from sifmod.easyconfig.conversion import Converted
from sifmod.easyconfig.conversion import convert as converted
from sifmod.eb.evaluation import variables_of
from sifmod.errors import EasyconfigError, SifmodError
from sifmod.host.files import write_new
from sifmod.site.settings import Site, load_settings


@click.command()
@click.argument("easyconfigs", nargs=-1, required=True, metavar="EASYCONFIG...", type=click.Path(path_type=Path))
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
def convert(easyconfigs: tuple[Path, ...], output: Optional[Path], force: bool, site_name: str, as_json: bool) -> None:
    """Convert easyconfigs that install a container with MakeCp to easyconfigs for ContainerImage.

    EasyBuild evaluates the easyconfigs, so their code runs. Parts that can't be converted are listed in the new
    easyconfig and on standard error. Settings that the site gives to every container are left out: name the site with
    --site. An easyconfig that can't be converted does not stop the others.

    \b
    Examples:
      sifmod convert --site lumi PyTorch-2.2.0-rocm-5.6.1-python-3.10.eb
      sifmod convert PyTorch-*.eb -o easyconfigs/
    """
    if len(easyconfigs) > 1 and not (output.is_dir() if output else as_json):
        raise click.UsageError("several easyconfigs need an existing directory: --output DIR")
    site = load_settings(site=site_name).site
    done: dict[str, Path] = {}
    report: list[dict[str, Any]] = []
    errors: dict[Path, SifmodError] = {}
    for easyconfig in easyconfigs:
        try:
            result = _converted(easyconfig, site, done)
            target = output / result.file_name if output and output.is_dir() else output
            if target:
                write_new(target, result.text, force=force)
        except SifmodError as error:
            if len(easyconfigs) == 1:
                raise
            errors[easyconfig] = error
            echo_error(f"sifmod: {error}")
            continue
        report.append({"easyconfig": str(easyconfig), "written": str(target) if target else None, **vars(result)})
        if not as_json:
            _print(result, target, f"{easyconfig.name}: " if len(easyconfigs) > 1 else "")
    if as_json:
        failed = [{"easyconfig": str(path), "problem": str(error)} for path, error in errors.items()]
        echo_json({"converted": report, "failed": failed})
    if errors:
        sys.exit(next(iter(errors.values())).exit_code)


def _converted(easyconfig: Path, site: Site, done: dict[str, Path]) -> Converted:
    """Convert an easyconfig whose module is not among those that are done."""
    variables = variables_of(easyconfig)
    activation = with_conda(easyconfig, variables, site)
    result = converted(variables, site, origin=easyconfig.name, with_conda=activation)
    earlier = done.setdefault(result.module, easyconfig)
    if earlier is not easyconfig:
        raise EasyconfigError(
            f"'{easyconfig}' has the same module name as '{earlier}', {result.module}: change the version or the "
            "versionsuffix of one of them, and convert it again"
        )
    return result


def _print(result: Converted, target: Optional[Path], prefix: str) -> None:
    for note in result.lost:
        echo_error(f"sifmod: {prefix}not carried over: {note}")
    for note in result.look:
        echo_error(f"sifmod: {prefix}note: {note}")
    echo_whole(f"wrote {target}" if target else result.text)
