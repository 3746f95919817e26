"""`sifmod render`: print the files that an install would write."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Optional

import click

from sifmod.artefact import Artefact
from sifmod.commands.options import json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_whole
from sifmod.eb.available import easyconfig_path
from sifmod.eb.evaluation import Evaluated, container_of
from sifmod.errors import InstallError, SifmodError
from sifmod.install.installer import write_artefact
from sifmod.install.manifest import read_manifest
from sifmod.install.preview import Preview, differences, preview


def _version(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value and not re.fullmatch(r"\d+\.\d+", value):
        raise click.BadParameter("give MAJOR.MINOR, such as 3.11")
    return value


@click.command()
@click.argument("easyconfig", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=None,
    help="Write the files to DIR, which must be empty or new, in the layout of an EasyBuild prefix.",
)
@click.option("--diff", "as_diff", is_flag=True, help="Show the differences from the installed files.")
@click.option("--python-version", callback=_version, metavar="X.Y", default="", help="Version of the image's Python.")
@prefix_option
@json_option
def render(
    easyconfig: Path,
    output: Optional[Path],
    as_diff: bool,
    python_version: str,
    prefix: Optional[Path],
    as_json: bool,
) -> None:
    """Print the files that an install of an easyconfig would write: scripts and module file.

    EasyBuild evaluates the easyconfig, with its settings and those of the site. Nothing is installed, and the image is
    not read: assumptions about the image, and files omitted because they need it, are reported on standard error.

    Exit status: 0; with --diff, 1 if there are differences.

    \b
    Examples:
      sifmod render Python-3.11-demo-singularity.eb | less
      sifmod render Python-3.11-demo-singularity.eb --output review/
      sifmod render Python-3.11-demo-singularity.eb --diff
    """
    if as_diff and output:
        raise click.UsageError("--diff and --output exclude each other")
    found = container_of(easyconfig_path(easyconfig), prefix=prefix)
    installdir = Path(found.spec.installdir)
    manifest = read_manifest(installdir)
    made = preview(
        found.spec, found.site, manifest=manifest, definitions=found.definitions, python_version=python_version
    )
    if not as_json:
        for note in made.notes:
            echo_error(f"sifmod: {note}")
    if as_diff:
        if manifest is None:
            raise InstallError(f"'{installdir}' is not an installation of sifmod: there is nothing to compare with")
        lines = list(differences(made.artefacts, installdir, manifest, (found.module_file, found.module)))
        if as_json:
            echo_json({"installation": str(installdir), "notes": list(made.notes), "diff": lines})
        else:
            colours = {"-": "red", "+": "green", "@": "cyan"}
            for line in lines:
                echo_whole(line, colour=colours.get(line[:1]))
        sys.exit(1 if lines else 0)
    if output:
        _write(found, made, output)
    if as_json:
        files = {str(installdir / item.path): item.text for item in made.artefacts}
        files[str(found.module_file)] = found.module
        echo_json({"notes": list(made.notes), "written": str(output) if output else None, "files": files})
    elif output:
        echo_whole(f"wrote {len(made.artefacts) + 1} files to {output}")
    else:
        for item in made.artefacts:
            _echo_file(str(installdir / item.path), item.text)
        _echo_file(str(found.module_file), found.module)


def _write(found: Evaluated, made: Preview, output: Path) -> None:
    if output.exists() and any(output.iterdir()):
        raise SifmodError(f"'{output}' is not empty: choose a new directory")
    root = PurePosixPath("software", found.naming.install_subdir)
    for item in made.artefacts:
        write_artefact(output, Artefact(root / item.path, item.text, item.executable))
    module = PurePosixPath("modules", "all", found.naming.full_module).with_name(found.module_file.name)
    write_artefact(output, Artefact(module, found.module))


def _echo_file(path: str, text: str) -> None:
    echo(f"==> {path} <==", bold=True)
    echo_whole(text)
