"""`sifmod catalogue`: write web pages of the containers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Optional

import click

from sifmod.catalogue.collection import collect
from sifmod.catalogue.ondemand import PROGRAM_FILES, is_app, jupyter_app, server_app
from sifmod.catalogue.pages import TITLE, catalogue_files, is_catalogue
from sifmod.commands.options import site_option
from sifmod.commands.output import echo, echo_error, output_time
from sifmod.commands.progress import shown_progress
from sifmod.eb.configuration import configuration
from sifmod.eb.space import software_space
from sifmod.errors import InstallError
from sifmod.host.writing import check_folder, write_folder
from sifmod.site.server import load_servers
from sifmod.site.settings import load_settings
from sifmod.text.printable import printable
from sifmod.text.progress import QUIET
from sifmod.text.size import counted

# As `doctor` with warnings: done, and something is worth a look.
_INCOMPLETE = 20


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Directory to write: new, empty, or an earlier catalogue, which is replaced as a whole.",
)
@click.option(
    "--ood",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write an app of Open OnDemand into this directory too: Jupyter in the containers that have one.",
)
@click.option(
    "--ood-serve",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write an app of Open OnDemand into this directory too: a server of a model, in the containers that have one.",
)
@click.option(
    "--ood-cluster",
    "clusters",
    metavar="ID",
    multiple=True,
    help="Cluster of the apps, as in Open OnDemand's clusters.d; may be repeated.",
)
@click.option(
    "--prefix",
    "prefixes",
    type=click.Path(path_type=Path),
    metavar="DIR",
    multiple=True,
    help="EasyBuild prefix whose installations are listed; may be repeated (default: the configured one).",
)
@click.option(
    "--easyconfigs",
    "folders",
    type=click.Path(path_type=Path),
    metavar="DIR",
    multiple=True,
    help="Folder of easyconfigs on offer; may be repeated. Without --prefix, only these are listed.",
)
@click.option("--title", default=TITLE, show_default=True, help="Heading of the first page.")
@site_option
@click.option("--quiet", "-q", is_flag=True, help="Print errors only, for cron.")
def catalogue(
    output: Optional[Path],
    ood: Optional[Path],
    ood_serve: Optional[Path],
    clusters: tuple[str, ...],
    prefixes: tuple[Path, ...],
    folders: tuple[Path, ...],
    title: str,
    site_name: str,
    quiet: bool,
) -> None:
    """Write a catalogue of containers: pages to search in, and catalogue.json.

    Users find a module by its name, its commands and its Python packages, and copy the lines that use it. The pages
    need no server and fetch nothing from elsewhere. As with eb, the code of easyconfigs on offer is run. A module of
    several prefixes is listed once, as the first prefix has it.

    Exit status: 0; 20 if the catalogue was written, but lacks what can't be read, which is named on standard error.
    After any other status an earlier catalogue is unchanged.

    \b
    Examples:
      sifmod catalogue --output ~/public_html/containers
      sifmod catalogue --output /srv/www/containers --prefix /apps --quiet
      sifmod catalogue --output site/ --easyconfigs easyconfigs/ --site lumi
      sifmod catalogue --ood ood/containers --ood-cluster mycluster
      sifmod catalogue --ood-serve ood/models --ood-cluster mycluster
    """
    _check_usage(output, (ood, ood_serve), clusters)
    settings = load_settings(site=site_name)
    spaces = [software_space(prefix) for prefix in prefixes]
    if not prefixes and not folders:
        spaces = [software_space()]
    progress = QUIET if quiet else shown_progress()
    with progress.step("reading containers") as step:
        collected = collect(
            spaces, folders, settings, seconds=output_time(), robot_paths=configuration().robot_paths, doing=step.tell
        )
    # a file system that is not mounted must not empty a catalogue, nor a part of it
    if not collected.catalogue.modules:
        raise InstallError(_nothing_found((*(space.software for space in spaces), *folders), collected.problems))
    if collected.empty:
        raise InstallError(_nothing_found(collected.empty))
    apps: dict[Path, tuple[dict[str, str], Callable[[Path], bool]]] = {}
    if ood:
        apps[ood] = jupyter_app(collected.catalogue, clusters), partial(is_app, "jupyter")
    if ood_serve:
        files = server_app(collected.catalogue, clusters, load_servers(settings.site), settings.site)
        apps[ood_serve] = files, partial(is_app, "serve")
    for folder, (_, replaceable) in apps.items():
        check_folder(folder, replaceable=replaceable)  # before anything is replaced
    if output:
        write_folder(output, catalogue_files(collected.catalogue, title=printable(title)), replaceable=is_catalogue)
    for folder, (app, replaceable) in apps.items():
        write_folder(folder, app, replaceable=replaceable, executable=PROGRAM_FILES)
    for problem in collected.problems:
        echo_error(f"sifmod: {problem}")
    if not quiet:
        if output:
            echo(f"wrote {counted(len(collected.catalogue.modules), 'module')} to {output / 'index.html'}")
        for folder in apps:
            echo(f"wrote an app of Open OnDemand to {folder}")
    sys.exit(_INCOMPLETE if collected.problems else 0)


def _check_usage(output: Optional[Path], apps: Sequence[Optional[Path]], clusters: Sequence[str]) -> None:
    folders = [folder.resolve() for folder in (output, *apps) if folder]
    if not folders:
        raise click.UsageError("name a directory to write with --output, --ood or --ood-serve")
    if len({*folders}) < len(folders):
        raise click.UsageError("two of --output, --ood and --ood-serve are the same directory: name others")
    if any(apps) != bool(clusters):
        raise click.UsageError("an app and --ood-cluster need each other: the form names the clusters that have jobs")
    for cluster in clusters:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", cluster):
            raise click.UsageError(
                f"'{cluster}' is not a valid cluster name: it must be the name of a file in clusters.d"
            )


def _nothing_found(places: Sequence[Path], problems: Sequence[str] = ()) -> str:
    where = ", ".join(f"'{place}'" for place in places)
    why = f" ({problems[0]})" if problems else ""
    return (
        f"there is no container in {where}{why}: name other places with --prefix and --easyconfigs. Nothing was written"
    )
