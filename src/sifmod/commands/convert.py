"""`sifmod convert`: convert easyconfigs in the style of LUMI's containers, and recipes and modules of SHPC."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import click

from sifmod.commands.options import OutputPath, json_option, site_option
from sifmod.commands.output import STANDARD_OUTPUT, echo_error, echo_json
from sifmod.commands.shpc import convert_installed, echo_batch, echo_converted
from sifmod.commands.writing import force_option, tell_install
from sifmod.eb.evaluation import variables_of
from sifmod.errors import EasyconfigError, SifmodError
from sifmod.fetch.recipes import find_recipe, read_recipe
from sifmod.host.writing import write_new
from sifmod.migrate.activation import with_conda
from sifmod.migrate.conversion import Converted
from sifmod.migrate.conversion import convert as converted
from sifmod.migrate.shpc import convert_recipe
from sifmod.site.settings import Site, load_settings


@click.command()
@click.argument("files", nargs=-1, metavar="[EASYCONFIG|RECIPE]...", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=OutputPath(path_type=Path),
    metavar="FILE|DIR",
    default=None,
    help="Write to this file, or into this directory under the name that EasyBuild expects; - is standard output.",
)
@click.option("--tag", default="", help="Tag of the recipe (default: its latest).")
@click.option("--full-name", is_flag=True, help="Name modules as SHPC does, by the whole path of the recipe.")
@click.option("--shpc", "recipe", default="", metavar="NAME[:TAG]", help="Convert a recipe of a registry of SHPC.")
@click.option(
    "--registry",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Checkout of the registry with the recipe.",
)
@click.option(
    "--installed",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Convert the modules that SHPC has installed into DIR.",
)
@force_option
@site_option
@json_option
def convert(
    files: tuple[Path, ...],
    output: Optional[Path],
    tag: str,
    full_name: bool,
    recipe: str,
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

    A recipe of SHPC is a container.yaml: its image by digest, its aliases as wrappers, its variables. --shpc finds one
    in a registry, by its name or the end of that: in a checkout, or in the index that the registry publishes. No image
    is pulled. --installed converts the module files of SHPC, whose images are linked instead of pulled; it needs a new
    --output DIR, in which eb --robot=DIR finds the easyconfigs.

    \b
    Examples:
      sifmod convert --site lumi PyTorch-2.2.0-rocm-5.6.1-python-3.10.eb
      sifmod convert PyTorch-*.eb -o easyconfigs/
      sifmod convert container.yaml --tag 1.9--h91753b0_8
      sifmod convert --shpc samtools --registry shpc-registry -o .
      sifmod convert --installed /apps/shpc/modules -o easyconfigs --full-name
    """
    if output and str(output) == STANDARD_OUTPUT:
        output = None
    _check_usage(files, recipe, registry, installed, output, tag=tag, full_name=full_name, as_json=as_json)
    site = load_settings(site=site_name).site
    if output and installed:
        batch = convert_installed(installed, site, output=output, full_name=full_name, force=force)
        echo_batch(batch, output, as_json=as_json)
        return
    done: dict[str, Path] = {}

    def convert_one(source: Union[Path, str]) -> tuple[Converted, Optional[Path]]:
        if registry:
            name, _colon, of_recipe = recipe.partition(":")
            result: Converted = convert_recipe(find_recipe(registry, name), site, tag=of_recipe, full_name=full_name)
        else:
            result = _converted(Path(source), site, done, tag=tag, full_name=full_name)
        target = output / result.file_name if output and output.is_dir() else output
        if target:
            write_new(target, result.text, force=force)
        return result, target

    _convert_each(files or [recipe], convert_one, as_json=as_json)


def _convert_each(
    sources: Sequence[Union[Path, str]],
    convert_one: Callable[[Union[Path, str]], tuple[Converted, Optional[Path]]],
    *,
    as_json: bool,
) -> None:
    """Convert files, or a recipe by its name, and tell of each; end with the status of the first that failed."""
    report: list[dict[str, Any]] = []
    errors: dict[str, SifmodError] = {}
    for source in sources:
        try:
            result, target = convert_one(source)
        except SifmodError as error:
            if len(sources) == 1:
                raise
            errors[str(source)] = error
            echo_error(f"sifmod: {error}")
            continue
        report.append({"easyconfig": str(source), "written": str(target) if target else None, **vars(result)})
        if not as_json:
            echo_converted(result, target, prefix=f"{Path(source).name}: " if len(sources) > 1 else "")
            if target and isinstance(source, str):
                tell_install(target)
    if as_json:
        failed = [{"easyconfig": path, "problem": str(error)} for path, error in errors.items()]
        echo_json({"converted": report, "failed": failed})
    if errors:
        sys.exit(next(iter(errors.values())).exit_code)


def _check_usage(
    files: tuple[Path, ...],
    recipe: str,
    registry: Optional[Path],
    installed: Optional[Path],
    output: Optional[Path],
    *,
    tag: str,
    full_name: bool,
    as_json: bool,
) -> None:
    if bool(files) + bool(recipe) + bool(installed) != 1:
        raise click.UsageError("give easyconfigs or recipes, or one of --shpc and --installed")
    if bool(recipe) != bool(registry):
        raise click.UsageError("--shpc NAME[:TAG] and --registry DIR belong together")
    if installed and not output:
        raise click.UsageError("--installed needs --output DIR")
    if tag and (len(files) != 1 or not _is_recipe(files[0])):
        raise click.UsageError("--tag is for one recipe of SHPC in a file")
    if len(files) > 1 and not (output.is_dir() if output else as_json):
        raise click.UsageError("several files need an existing directory: --output DIR")
    if full_name and not all(map(_is_recipe, files)):
        raise click.UsageError("--full-name is for recipes of SHPC")


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
