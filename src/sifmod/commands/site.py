"""`sifmod site`: show and check the settings of the cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Optional

import click

from sifmod import names
from sifmod.commands.options import json_option, site_option
from sifmod.commands.output import echo, echo_error, echo_findings, echo_json, echo_table, echo_whole
from sifmod.doctor.site import check_site
from sifmod.finding import PROBLEM
from sifmod.host.runtime import find_runtime
from sifmod.install.discovery import Discovery
from sifmod.install.hostmpi import discover as discover_mpi
from sifmod.install.hostmpi import find_library
from sifmod.install.hostslurm import discover_slurm
from sifmod.install.mpi import with_namespaces
from sifmod.install.sitemodule import site_module_name, write_site_module
from sifmod.render.sitemodule import USED_KEYS
from sifmod.site.keys import plain
from sifmod.site.schema import advisories_schema, site_schema
from sifmod.site.settings import Settings, load_settings, shipped_sites, site_title
from sifmod.text.quoting import shell
from sifmod.text.size import counted


@click.group()
def site() -> None:
    """Show and check the settings of the cluster, and write a module of them.

    They are merged: defaults < site file < ~/.config/sifmod/config.toml < SIFMOD_* variables < easyconfig.

    \b
    Examples:
      sifmod site list
      SIFMOD_SITE=lumi sifmod site show
      sifmod site check --site ./our-site.toml
      sifmod site module --output ~/modules
    """


@site.command("list")
@json_option
def list_sites(as_json: bool) -> None:
    """List the sites that come with sifmod.

    SIFMOD_SITE, or the key `site` in ~/.config/sifmod/config.toml, chooses one of them or names a site file.

    \b
    Examples:
      sifmod site list
      sifmod site list --json
    """
    sites = {name: site_title(name) for name in shipped_sites()}
    if as_json:
        echo_json([{"name": name, "title": title} for name, title in sites.items()])
    else:
        echo_table(("SITE", "TITLE"), list(sites.items()))


@site.command()
@site_option
@json_option
def show(site_name: str, as_json: bool) -> None:
    """Show every setting and where it comes from.

    The parameters gpu, binds and container_env of an easyconfig take precedence over these.

    \b
    Examples:
      sifmod site show
      sifmod site show --site lumi --json
    """
    settings = load_settings(site=site_name)
    if as_json:
        echo_json(_shown(settings))
        return
    echo(f"site {settings.site.name}: {settings.path}\n")
    rows = [(entry.name, _text(entry.value), str(entry.origin)) for entry in settings.entries()]
    echo_table(("SETTING", "VALUE", "ORIGIN"), rows)


def _text(setting: object) -> str:
    """Return a setting as a site file would have it, as far as a table can."""
    value = "(not set)" if setting is None else plain(setting)
    if isinstance(value, bool):
        return str(value).lower()
    text = "\n".join(value) if isinstance(value, list) else str(value)
    return "-" if value in ("", [], {}) else text


def _shown(settings: Settings) -> dict[str, Any]:
    return {
        "site": settings.site.name,
        "file": str(settings.path),
        "settings": {
            entry.name: {
                "value": False if entry.value is None else plain(entry.value),
                "origin": {name: value for name, value in vars(entry.origin).items() if value},
            }
            for entry in settings.entries()
        },
    }


@site.command()
@site_option
@json_option
def check(site_name: str, as_json: bool) -> None:
    """Check each path, command and name of the site on this host.

    Exit status: 0 if there are no problems, 1 if there are, 4 if the site's settings themselves are wrong.

    \b
    Examples:
      sifmod site check
      srun -N1 sifmod site check             on a compute node
      sifmod site check --site ./our-site.toml --json
    """
    settings = load_settings(site=site_name)
    findings = check_site(settings)
    problems = sum(finding.severity == PROBLEM for finding in findings)
    if as_json:
        echo_json(
            {"site": settings.site.name, "problems": problems, "findings": [vars(finding) for finding in findings]}
        )
    else:
        echo_findings(findings)
        count = counted(problems, "problem") if problems else "no problems"
        echo(f"\n{count} with the site {settings.site.name} on this host")
    sys.exit(1 if problems else 0)


@site.command()
@click.argument("what", type=click.Choice([names.MPI_FEATURE, names.SLURM_FEATURE]), metavar="mpi|slurm")
@click.option(
    "--library",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The host's libmpi.so; default: that in LD_LIBRARY_PATH, else in the loader's cache.",
)
@json_option
def discover(what: str, library: Optional[Path], as_json: bool) -> None:
    """Print the lines of a site file for the host's MPI or Slurm.

    They are the feature `mpi`, and name the library with all that it needs except the C library and those of
    compilers, its plugins, the variables that tell it where these are, and those that it needs with the runtime of this
    host. The feature `slurm` names the commands that are in the search path with their libraries and plugins, the
    folder of slurm.conf, munge's socket, and the files with users' names. ldd is run on the library, and on Slurm's
    commands, which may run their code: name only a library that you trust.

    Exit status: 0; 1 if there is no MPI library, or no Slurm that answers; 4 if the site's settings are wrong; 6 if
    there is no runtime.

    \b
    Examples:
      sifmod site discover mpi >>our-site.toml
      module load cray-mpich-abi; sifmod site discover mpi
      sifmod site discover mpi --library /opt/mpich/lib/libmpi.so.12 --json
      sifmod site discover slurm >>our-site.toml
    """
    known: dict[str, object] = {}
    if what == names.SLURM_FEATURE:
        if library:
            raise click.UsageError("--library is for mpi: Slurm is that of the search path")
        found: Discovery = discover_slurm(os.environ)
    else:
        mpi = with_namespaces(discover_mpi(library or find_library(os.environ)), find_runtime(load_settings().site))
        found, known = mpi, {"library": vars(mpi.library)}
    if as_json:
        echo_json({**known, "glibc": found.glibc, what: found.table, "notes": found.notes})
    else:
        for line in found.text.splitlines():
            echo_whole(line)


@site.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    required=True,
    help="Folder of modules to write to: one of MODULEPATH.",
)
@click.option("--name", default="", help="Name of the module (default: SITE-container).")
@site_option
@json_option
def module(output: Path, name: str, site_name: str, as_json: bool) -> None:
    """Write a module with the settings of the site, for any image.

    It sets the bind paths, features, variables, caches and GPU support that the modules of containers set, in Lua for
    Lmod and in Tcl for Environment Modules. The module of a container replaces it. To update it after a change of the
    site, run the command again.

    \b
    Examples:
      sifmod site module --site lumi --output /appl/modules
      sifmod site module --output ~/modules --name containers
      module use ~/modules; module load containers; singularity run IMAGE.sif
    """
    settings = load_settings(site=site_name)
    name = site_module_name(name, settings.site)
    written = write_site_module(output, name, settings.site)
    for entry in settings.entries():
        if entry.name.partition(".")[0] in USED_KEYS and entry.origin.layer in ("user", "environment"):
            echo_error(f"sifmod: the module has your own setting of {entry.name}, from {entry.origin}")
    if as_json:
        echo_json({"module": name, "site": settings.site.name, "files": [str(path) for path in written]})
    else:
        echo_whole(f"wrote the module {name}, in Lua and Tcl: {' '.join(map(str, written))}")
        echo_whole(f"load it with: module use {shell(output.absolute())}; module load {name}")


@site.command()
@click.option("--user", "users", is_flag=True, help="For the user's own settings, which can also name the site.")
@click.option("--advisories", is_flag=True, help="For files of advisories.")
def schema(users: bool, advisories: bool) -> None:
    """Print the JSON schema of site files, for editors.

    Editors find it by the first line of a file: #:schema ./schema.json

    \b
    Examples:
      sifmod site schema >schema.json
      sifmod site schema --user
      sifmod site schema --advisories
    """
    if users and advisories:
        raise click.UsageError("--user and --advisories are for different files: leave out one")
    echo_json(advisories_schema() if advisories else site_schema(users=users))
