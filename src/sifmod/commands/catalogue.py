"""`sifmod catalogue`: write web pages of the containers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from sifmod.catalogue.collection import collect
from sifmod.catalogue.pages import TITLE, catalogue_files, is_catalogue
from sifmod.commands.options import site_option
from sifmod.commands.output import echo, echo_error, output_time
from sifmod.commands.progress import shown_progress
from sifmod.eb.configuration import configuration
from sifmod.eb.space import software_space
from sifmod.errors import InstallError
from sifmod.host.writing import write_folder
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
    required=True,
    help="Directory to write: new, empty, or an earlier catalogue, which is replaced as a whole.",
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
    output: Path,
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
    """
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
    write_folder(output, catalogue_files(collected.catalogue, title=printable(title)), replaceable=is_catalogue)
    for problem in collected.problems:
        echo_error(f"sifmod: {problem}")
    if not quiet:
        echo(f"wrote {counted(len(collected.catalogue.modules), 'module')} to {output / 'index.html'}")
    sys.exit(_INCOMPLETE if collected.problems else 0)


def _nothing_found(places: Sequence[Path], problems: Sequence[str] = ()) -> str:
    where = ", ".join(f"'{place}'" for place in places)
    why = f" ({problems[0]})" if problems else ""
    return (
        f"there is no container in {where}{why}: name other places with --prefix and --easyconfigs. Nothing was written"
    )
