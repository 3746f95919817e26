"""`sifmod new`: write an easyconfig for an image."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Optional, Union

import click

from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import STANDARD_OUTPUT, echo_error, echo_json, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.commands.shpc import echo_converted
from sifmod.easyconfig.buildfile import BuildFile, base_comment, is_build_file, propose_build, read_build_file
from sifmod.easyconfig.condaenvironment import CondaSource, make_conda_environment, read_conda
from sifmod.easyconfig.environment import Environment, Source, file_names, make_environment
from sifmod.easyconfig.newimage import NewImage, file_image, names_uri, pulled_image
from sifmod.easyconfig.onmodule import propose_on
from sifmod.easyconfig.proposal import TAKEN_OVER, Proposal, checked_name, propose
from sifmod.easyconfig.requirements import read_pyproject, read_requirements
from sifmod.easyconfig.shpc import ConvertedTool, convert_recipe
from sifmod.easyconfig.text import easyconfig_text, read_easyconfig
from sifmod.eb.space import software_space
from sifmod.errors import SifmodError
from sifmod.fetch.recipes import find_recipe
from sifmod.host.architecture import why_not_here
from sifmod.host.files import refuse_existing, write_new, write_together
from sifmod.installed.base import bases_of, find_base
from sifmod.site.settings import Site, load_settings

AnySource = Union[Source, CondaSource]
_SOURCES = "--requirements, --pylock, --pyproject and --conda"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("new")
@click.argument("image", metavar="[IMAGE|URI|DOCKERFILE]", type=click.Path(), default="")
@click.option("--name", default="", help="Name of the module (default: the main package's).")
@click.option("--version", default="", help="Version of the module (default: the main package's).")
@click.option(
    "--commands",
    multiple=True,
    metavar="GLOB",
    help="Wrappers only for commands of such names (default: all of the main package's). May be repeated.",
)
@click.option(
    "--like",
    type=_FILE,
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
@click.option("--requirements", type=_FILE, metavar="FILE", help="Requirements file of pip: install its packages too.")
@click.option("--pylock", type=_FILE, metavar="FILE", help="Lock file (pylock.toml): install its packages too.")
@click.option("--pyproject", type=_FILE, metavar="FILE", help="pyproject.toml: install the project's dependencies too.")
@click.option("--conda", type=_FILE, metavar="FILE", help="environment.yml or explicit list: install its packages too.")
@click.option("--extra", "extras", multiple=True, help="Extra of the project to install too.")
@click.option("--group", "groups", multiple=True, help="Dependency group of the project to install too.")
@click.option("--base", default="", metavar="IMAGE|URI", help="Image to install the packages on.")
@click.option("--on-top", is_flag=True, help="Install the packages into user software, not into a new image.")
@click.option("--on", "base_module", default="", metavar="MODULE", help="Module to build on: name no image.")
@click.option("--shpc", "recipe", default="", metavar="NAME[:TAG]", help="Recipe of SHPC to convert: name no image.")
@click.option("--registry", default="", metavar="DIR|URL", help="Checkout or address of the registry with the recipe.")
@click.option("--full-name", is_flag=True, help="Name the module as SHPC does, by the whole path of the recipe.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@site_option
@json_option
def new(
    image: str,
    name: str,
    version: str,
    commands: tuple[str, ...],
    like: Optional[Path],
    output: str,
    requirements: Optional[Path],
    pylock: Optional[Path],
    pyproject: Optional[Path],
    conda: Optional[Path],
    extras: tuple[str, ...],
    groups: tuple[str, ...],
    base: str,
    on_top: bool,
    base_module: str,
    recipe: str,
    registry: str,
    full_name: bool,
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

    With --requirements, --pylock, --pyproject or --conda the module also has the packages of that file. A definition
    file and a lock are written beside the easyconfig: eb builds an image from the base in which the base's own packages
    are kept. With --on-top the image is the base's, and the packages are in user software.

    With --on the module takes over the image, the settings and the user software of another one, such as a
    colleague's, and has nothing but user software of its own, on top. MODULE is one of MODULEPATH or of your software
    space, or the path of an installation.

    With --shpc the easyconfig is that of a recipe of SHPC, from a checkout of its registry or from the index that the
    registry publishes; no image is pulled.

    Exit status: 0; 1 if the output exists, OTHER.eb is not a container easyconfig, or the packages can't be locked for
    the base; 3 if a value can't be used; 4 if the site's settings are wrong; 5 if IMAGE is not an image or can't be
    pulled; 6 if there is no container runtime; 7 if the base's Python does not run; 13 if a recipe can't be converted.

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
      sifmod new --requirements requirements.txt --base pytorch.sif --name lab
      sifmod new --pyproject pyproject.toml --base pytorch.sif --on-top
      sifmod new --conda environment.yml --base docker://mambaorg/micromamba:2
      sifmod new --on PyTorch/2.7.1 --name lab
      sifmod new --shpc samtools --registry shpc-registry
      sifmod new --shpc bwa:0.7.17 --registry https://github.com/ORG/REPO
    """
    others = (image, commands, like, requirements, pylock, pyproject, conda, extras, groups, base, on_top)
    if base_module:
        if not name or any((*others, recipe, registry, full_name)):
            raise click.UsageError("--on needs --name, the name of the new module, and takes --version and --output")
        folder, files, proposal = _on_module(base_module, output, name=name, version=version)
        _write(folder, files, [*proposal.notes], proposal, output, force=force, as_json=as_json)
        return
    if recipe or registry or full_name:
        if not (recipe and registry) or any((*others, name, version)):
            raise click.UsageError("--shpc and --registry belong together, and with --full-name, --output and --force")
        site = load_settings(site=site_name).site
        named, _colon, tag = recipe.partition(":")
        converted = convert_recipe(find_recipe(registry, named, site), site, tag=tag, full_name=full_name)
        _write_converted(converted, output, force=force, as_json=as_json)
        return
    # before a pull, which names a folder after the module
    for key, value in (("name", name), ("version", version)):
        if value:
            checked_name(key, value)
    source = _source(requirements, pylock, pyproject, conda, extras, groups)
    _check_usage(source, image, base, on_top=on_top, output=output)
    site = load_settings(site=site_name).site
    notes: list[str] = []
    similar: dict[str, Any] = {}
    if like:
        similar, computed = read_easyconfig(like)
        notes += [f"{one} was not taken over, because {like.name} computes it" for one in computed if one in TAKEN_OVER]
    if source:
        name, version = source.named(name, version)
    image = image or base
    if not source and is_build_file(Path(image)):
        folder, files, proposal = _from_build_file(
            read_build_file(Path(image)), site, output, name=name, version=version, like=similar, commands=commands
        )
        _write(folder, files, [*notes, *proposal.notes], proposal, output, force=force, as_json=as_json)
        return
    progress = shown_progress()
    if names_uri(image):
        # eb builds from the base wherever it lies, so a base that was pulled for another module is not pulled again
        found = pulled_image(image, site, name="" if source and not on_top else name, say=_say, progress=progress)
    else:
        found = file_image(Path(image), say=_say, progress=progress)
    proposal = propose(
        found.inspection,
        site,
        sha256=found.sha256,
        uri=found.uri,
        name=name,
        version=version,
        like=similar,
        programs=found.programs,
        origin=found.origin,
        commands=commands,
    )
    found = found.settled(str(proposal.parameters["name"]))
    folder = Path(output) if source or Path(output).is_dir() else Path(output).parent
    if source:
        environment = _environment(source, found, proposal, site, folder, on_top=on_top, force=force)
        files, proposal = environment.files, environment.proposal
    else:
        text = easyconfig_text(proposal.parameters, comments=[f"Written by sifmod new from {found.origin}: review it."])
        files = {proposal.file_name if Path(output).is_dir() else Path(output).name: text}
    notes += proposal.notes
    elsewhere = why_not_here(found.inspection.architecture)
    if elsewhere:
        notes.append(f"{elsewhere}: install it on a host of that kind")
    _write(
        folder,
        files,
        notes,
        proposal,
        output,
        force=force,
        as_json=as_json,
        options=None if source and not on_top else lambda target: found.options_of_eb(target, site),
        is_environment=bool(source),
    )


def _on_module(base_module: str, output: str, *, name: str, version: str) -> tuple[Path, Mapping[str, str], Proposal]:
    """Return the folder to write into, the easyconfig for a module on top of another one, and what that says."""
    found = find_base(base_module, software_space(), os.environ)
    bases_of(found, Path("/"))
    kept: Mapping[str, Any] = {}
    with contextlib.suppress(SifmodError):  # then it has general words
        kept = read_easyconfig(found.root / "easybuild" / f"{found.name}-{found.version}.eb")[0]
    proposal = propose_on(base_module, kept, name=name, version=version or found.version)
    text = easyconfig_text(proposal.parameters, comments=[f"Written by sifmod new --on {base_module}: review it."])
    given = Path(output)
    folder, file_name = (given, "") if given.is_dir() else (given.parent, given.name)
    return folder, {file_name or proposal.file_name: text}, proposal


def _from_build_file(
    found: BuildFile,
    site: Site,
    output: str,
    *,
    name: str,
    version: str,
    like: Mapping[str, Any],
    commands: tuple[str, ...],
) -> tuple[Path, Mapping[str, str], Proposal]:
    """Return the folder of a Dockerfile or a definition file, the easyconfig for it, and what that says."""
    folder, file_name = found.path.parent, ""
    if output not in ("", STANDARD_OUTPUT):
        given = Path(output)
        given, file_name = (given, "") if given.is_dir() else (given.parent, given.name)
        if given.resolve() != folder.resolve():
            raise click.UsageError(f"eb looks for {found.path.name} beside the easyconfig: write into '{folder}'")
    proposal = propose_build(found, site, name=name, version=version, like=like, commands=commands)
    notes: list[str] = []
    comments = [f"Written by sifmod new from {found.path.name}: review it.", base_comment(found, site, notes)]
    text = easyconfig_text(proposal.parameters, comments=[*filter(None, comments)])
    return folder, {file_name or proposal.file_name: text}, replace(proposal, notes=(*notes, *proposal.notes))


def _write(
    folder: Path,
    files: Mapping[str, str],
    notes: Sequence[str],
    proposal: Proposal,
    output: str,
    *,
    force: bool,
    as_json: bool,
    options: Optional[Callable[[Path], Sequence[str]]] = None,
    is_environment: bool = False,
) -> None:
    """Write an easyconfig and what belongs to it, and tell what was written and how to install it.

    Args:
        folder: folder to write into.
        files: texts by file name, that of the easyconfig last.
        notes: sentences for its author.
        proposal: what it says.
        output: what was given as --output.
        force: whether to overwrite files.
        as_json: whether to print JSON.
        options: returns the options that `eb` needs for an easyconfig, quoted for a shell.
        is_environment: whether there are more files than the easyconfig.
    """
    to_file = output != STANDARD_OUTPUT
    if to_file:
        write_together(folder, files, force=force)
    written = [folder / one for one in files] if to_file else []
    target = written[-1] if written else None
    text = list(files.values())[-1]
    if as_json:
        shown = {"file": str(target or ""), "parameters": proposal.parameters, "notes": notes, "text": text}
        echo_json({**shown, "files": {str(folder / one): files[one] for one in files}} if is_environment else shown)
        return
    if target is None:
        echo_whole(text)
    for note in notes:
        _say(f"note: {note}")
    for path in written:
        echo_whole(f"wrote {path}")
    if target:
        words = [*(options(target) if options else ()), shlex.quote(str(target))]
        _tell_install(" ".join(words))


def _write_converted(converted: ConvertedTool, output: str, *, force: bool, as_json: bool) -> None:
    target = None
    if output != STANDARD_OUTPUT:
        target = Path(output) / converted.file_name if Path(output).is_dir() else Path(output)
        write_new(target, converted.text, force=force)
    if as_json:
        notes = [*converted.lost, *converted.look]
        echo_json({"file": str(target or ""), "module": converted.module, "notes": notes, "text": converted.text})
        return
    echo_converted(converted, target)
    if target:
        _tell_install(shlex.quote(str(target)))


def _tell_install(words: str) -> None:
    """Print the command that installs what was written."""
    echo_whole(f"install it with: eb {words}")
    if not shutil.which("eb"):
        _say("note: there is no command eb in this shell: load EasyBuild's module, or activate its environment, first")


def _environment(
    source: AnySource, base: NewImage, proposal: Proposal, site: Site, folder: Path, *, on_top: bool, force: bool
) -> Environment:
    """Return the environment of a file; one that exists is refused before the base is run, if its name is known."""
    if isinstance(source, CondaSource):
        return make_conda_environment(source, base, proposal, site, say=_say)
    refuse_existing([] if force else [folder / name for name in file_names(proposal, on_top=on_top)])
    return make_environment(source, base, proposal, site, on_top=on_top, say=_say)


def _source(
    requirements: Optional[Path],
    pylock: Optional[Path],
    pyproject: Optional[Path],
    conda: Optional[Path],
    extras: tuple[str, ...],
    groups: tuple[str, ...],
) -> Optional[AnySource]:
    """Return the file of packages that was given; None if there is none."""
    if sum(path is not None for path in (requirements, pylock, pyproject, conda)) > 1:
        raise click.UsageError(f"give one of {_SOURCES}")
    if (extras or groups) and not pyproject:
        raise click.UsageError("--extra and --group belong to --pyproject")
    if requirements:
        return Source(requirements=read_requirements(requirements))
    if pyproject:
        return Source(requirements=read_pyproject(pyproject, extras=extras, groups=groups))
    if conda:
        return read_conda(conda)
    return Source(lock=pylock) if pylock else None


def _check_usage(source: Optional[AnySource], image: str, base: str, *, on_top: bool, output: str) -> None:
    if source and (image or not base):
        raise click.UsageError("name the image to install the packages on with --base")
    if source and output and not Path(output).is_dir():
        raise click.UsageError("an environment has several files: name a folder with --output")
    if not source and (base or on_top):
        raise click.UsageError(f"--base and --on-top need one of {_SOURCES}")
    if isinstance(source, CondaSource) and on_top:
        raise click.UsageError("a conda environment can't be put on top of an image: leave out --on-top")
    if not source and not image:
        raise click.UsageError("name an image: IMAGE or URI")


def _say(line: str) -> None:
    echo_error(line)
