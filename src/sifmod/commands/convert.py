"""`sifmod convert`: convert easyconfigs in the style of LUMI's containers, and recipes and modules of SHPC."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

import click

from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import STANDARD_OUTPUT, echo_error, echo_json
from sifmod.commands.shpc import convert_installed, convert_registry, echo_batch, echo_converted
from sifmod.easyconfig.activation import with_conda
from sifmod.easyconfig.conversion import Converted
from sifmod.easyconfig.conversion import convert as converted
from sifmod.easyconfig.shpc import convert_recipe
from sifmod.eb.evaluation import variables_of
from sifmod.errors import EasyconfigError, SifmodError
from sifmod.fetch.recipes import read_recipe
from sifmod.host.files import write_new
from sifmod.site.settings import Site, load_settings

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("files", nargs=-1, metavar="[EASYCONFIG|RECIPE]...", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    default=None,
    help="Write to this file, or into this directory under the name that EasyBuild expects; - is standard output.",
)
@click.option("--tag", default="", help="Tag of the recipe (default: its latest).")
@click.option("--full-name", is_flag=True, help="Name modules as SHPC does, by the whole path of the recipe.")
@click.option("--all", "registry", type=_FOLDER, metavar="DIR", help="Convert all recipes of a registry of SHPC.")
@click.option("--installed", type=_FOLDER, metavar="DIR", help="Convert the modules that SHPC has installed into DIR.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@site_option
@json_option
def convert(
    files: tuple[Path, ...],
    output: Optional[Path],
    tag: str,
    full_name: bool,
    registry: Optional[Path],
    installed: Optional[Path],
    force: bool,
    site_name: str,
    as_json: bool,
) -> None:
    """Convert easyconfigs that install a container with MakeCp, or recipes of SHPC, to easyconfigs for ContainerImage.

    EasyBuild evaluates the easyconfigs, so their code runs. Parts that can't be converted are listed in the new
    easyconfig and on standard error. Settings that the site gives to every container are left out: name the site with
    --site. A file that can't be converted does not stop the others.

    A recipe of SHPC is a container.yaml: its image by digest, its aliases as wrappers, its variables. --all converts
    each recipe of a checkout of a registry, for its latest tag, and --installed the module files of SHPC, whose images
    are linked instead of pulled; both need a new --output DIR, in which eb --robot=DIR finds the easyconfigs.

    \b
    Examples:
      sifmod convert --site lumi PyTorch-2.2.0-rocm-5.6.1-python-3.10.eb
      sifmod convert PyTorch-*.eb -o easyconfigs/
      sifmod convert container.yaml --tag 1.9--h91753b0_8
      sifmod convert --all shpc-registry -o easyconfigs
      sifmod convert --installed /apps/shpc/modules -o easyconfigs --full-name
    """
    if output and str(output) == STANDARD_OUTPUT:
        output = None
    _check_usage(files, registry, installed, output, tag=tag, full_name=full_name, as_json=as_json)
    site = load_settings(site=site_name).site
    if output and registry:
        batch = convert_registry(registry, site, output=output, full_name=full_name, force=force)
        echo_batch(batch, output, as_json=as_json)
        return
    if output and installed:
        batch = convert_installed(installed, site, output=output, full_name=full_name, force=force)
        echo_batch(batch, output, as_json=as_json)
        return
    done: dict[str, Path] = {}
    report: list[dict[str, Any]] = []
    errors: dict[Path, SifmodError] = {}
    for file in files:
        try:
            result = _converted(file, site, done, tag=tag, full_name=full_name)
            target = output / result.file_name if output and output.is_dir() else output
            if target:
                write_new(target, result.text, force=force)
        except SifmodError as error:
            if len(files) == 1:
                raise
            errors[file] = error
            echo_error(f"sifmod: {error}")
            continue
        report.append({"easyconfig": str(file), "written": str(target) if target else None, **vars(result)})
        if not as_json:
            echo_converted(result, target, prefix=f"{file.name}: " if len(files) > 1 else "")
    if as_json:
        failed = [{"easyconfig": str(path), "problem": str(error)} for path, error in errors.items()]
        echo_json({"converted": report, "failed": failed})
    if errors:
        sys.exit(next(iter(errors.values())).exit_code)


def _check_usage(
    files: tuple[Path, ...],
    registry: Optional[Path],
    installed: Optional[Path],
    output: Optional[Path],
    *,
    tag: str,
    full_name: bool,
    as_json: bool,
) -> None:
    folders = [one for one in (registry, installed) if one]
    if bool(files) + len(folders) != 1:
        raise click.UsageError("give easyconfigs or recipes, or one of --all and --installed")
    if folders and (tag or not output):
        raise click.UsageError("--all and --installed need --output DIR, and have no --tag")
    if len(files) > 1 and (tag or not (output.is_dir() if output else as_json)):
        raise click.UsageError("several files need an existing directory, --output DIR, and have no --tag")
    if (tag or full_name) and not all(_is_recipe(file) for file in files):
        raise click.UsageError("--tag and --full-name are for recipes of SHPC")


def _is_recipe(file: Path) -> bool:
    return file.suffix in (".yaml", ".yml")


def _converted(file: Path, site: Site, done: dict[str, Path], *, tag: str, full_name: bool) -> Converted:
    """Convert an easyconfig or a recipe whose module is not among those that are done."""
    if _is_recipe(file):
        result: Converted = convert_recipe(read_recipe(file), site, tag=tag, full_name=full_name)
    else:
        variables = variables_of(file)
        activation = with_conda(file, variables, site)
        result = converted(variables, site, origin=file.name, with_conda=activation)
    earlier = done.setdefault(result.module, file)
    if earlier is not file:
        raise EasyconfigError(
            f"'{file}' has the same module name as '{earlier}', {result.module}: change the version or the "
            "versionsuffix of one of them, and convert it again"
        )
    return result
