"""How an easyconfig that a verb proposes is written, and what its author is told; and the options of such verbs."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import click

from sifmod.commands.options import OutputPath
from sifmod.commands.output import STANDARD_OUTPUT, echo_error, echo_json, echo_whole
from sifmod.commands.progress import shown_progress
from sifmod.container.parameters import TAKEN_OVER
from sifmod.easyconfig.newimage import NewImage, file_image, names_uri, pulled_image
from sifmod.easyconfig.proposal import Proposal, checked_name, propose
from sifmod.easyconfig.text import read_easyconfig
from sifmod.host.architecture import why_not_here
from sifmod.host.writing import write_together
from sifmod.site.settings import Site

file_argument = click.Path(exists=True, dir_okay=False, path_type=Path)

name_option = click.option("--name", default="", help="Name of the module (default: the main package's).")
version_option = click.option("--version", default="", help="Version of the module (default: the main package's).")
commands_option = click.option(
    "--commands",
    multiple=True,
    metavar="GLOB",
    help="Wrappers only for commands of such names (default: all of the main package's). May be repeated.",
)
like_option = click.option(
    "--like",
    type=file_argument,
    metavar="OTHER.eb",
    help="Easyconfig of a similar container: take over its parameters where they still apply.",
)
output_option = click.option(
    "-o",
    "--output",
    default="",
    type=OutputPath(),
    metavar="FILE|DIR|-",
    help="Where to write it (default: NAME-VERSION.eb in this directory); '-' is standard output.",
)
force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")


def check_names(name: str, version: str) -> None:
    """Refuse a name or a version that can't be part of a path, before a pull names a folder after the module."""
    for key, value in (("name", name), ("version", version)):
        if value:
            checked_name(key, value)


def taken_over(like: Optional[Path]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the parameters of a similar easyconfig, and a note for each that it computes."""
    if not like:
        return {}, []
    similar, computed = read_easyconfig(like)
    skipped = [one for one in computed if one in TAKEN_OVER]
    return similar, [f"{one} was not taken over, because {like.name} computes it" for one in skipped]


def proposed(
    image: str,
    site: Site,
    *,
    name: str,
    version: str,
    like: Mapping[str, Any],
    commands: Sequence[str],
    pulled_for: str,
) -> tuple[NewImage, Proposal]:
    """Look at an image, and return it with the proposal of an easyconfig for it."""
    progress = shown_progress()
    if names_uri(image):
        found = pulled_image(image, site, name=pulled_for, say=echo_error, progress=progress)
    else:
        found = file_image(Path(image), say=echo_error, progress=progress)
    proposal = propose(
        found.inspection,
        site,
        sha256=found.sha256,
        uri=found.uri,
        name=name,
        version=version,
        like=like,
        programs=found.programs,
        origin=found.origin,
        commands=commands,
    )
    elsewhere = why_not_here(found.inspection.architecture)
    if elsewhere:
        proposal = replace(proposal, notes=(*proposal.notes, f"{elsewhere}: install it on a host of that kind"))
    return found.settled(str(proposal.parameters["name"])), proposal


def place_of(output: str, proposal: Proposal) -> Path:
    """Return the path of an easyconfig: the given file, or EasyBuild's name for it in the given folder."""
    given = Path(output)
    return given / proposal.file_name if given.is_dir() else given


def write_proposal(
    folder: Path,
    files: Mapping[str, str],
    proposal: Proposal,
    *,
    notes: Sequence[str],
    output: str = "",
    force: bool,
    as_json: bool,
    options: Optional[Callable[[Path], Sequence[str]]] = None,
) -> None:
    """Write an easyconfig and what belongs to it, and tell what was written and how to install it."""
    to_file = output != STANDARD_OUTPUT
    if to_file:
        write_together(folder, files, force=force)
    written = [folder / one for one in files] if to_file else []
    target = written[-1] if written else None
    text = list(files.values())[-1]
    if as_json:
        shown = {"file": str(target or ""), "parameters": proposal.parameters, "notes": notes, "text": text}
        echo_json({**shown, "files": {str(folder / one): files[one] for one in files}} if len(files) > 1 else shown)
        return
    if target is None:
        echo_whole(text)
    for note in notes:
        echo_error(f"note: {note}")
    for path in written:
        echo_whole(f"wrote {path}")
    if target:
        tell_install(target, options(target) if options else ())


def tell_install(target: Path, options: Sequence[str] = ()) -> None:
    """Print the command that installs what was written, with options that are quoted for a shell."""
    echo_whole(f"install it with: eb {' '.join((*options, shlex.quote(str(target))))}")
    if not shutil.which("eb"):
        echo_error(
            "note: there is no command eb in this shell: load EasyBuild's module, or activate its environment, first"
        )
