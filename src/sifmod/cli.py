"""The `sifmod` command: a thin layer over the library."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from sifmod import __version__
from sifmod.errors import SifmodError
from sifmod.robot import SHELLS, easybuild_settings
from sifmod.site import Settings, load_settings, shipped_sites, site_title
from sifmod.sitecheck import ABSENT, FOUND, PROBLEM, check_site
from sifmod.sitekeys import plain
from sifmod.siteschema import site_schema
from sifmod.table import table

PROGRAM = "sifmod"
COMPLETION_SHELLS = ("bash", "zsh", "fish")

_COLOURS = {FOUND: "green", ABSENT: "yellow", PROBLEM: "red"}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")


def _complete_sites(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in shipped_sites() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


site_option = click.option(
    "--site",
    "site_name",
    metavar="NAME|PATH",
    default="",
    shell_complete=_complete_sites,
    help="A shipped site, or a site file, instead of the one in force.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """Container images as environment modules, installed with EasyBuild.

    \b
    Examples:
      eb Python-3.11-demo-singularity.eb     install a container (EasyBuild)
      sifmod site check                      see whether this host is fit for it
      eval "$(sifmod env)"                   tell an EasyBuild that is a module about sifmod
    """


@cli.command()
@click.option(
    "--shell", type=click.Choice(SHELLS), default="bash", show_default=True, help="Language of the shell to print for."
)
def env(shell: str) -> None:
    """Print the settings with which any EasyBuild finds sifmod's easyblock and easyconfigs.

    Not needed where sifmod is installed into the same Python environment as EasyBuild.

    \b
    Examples:
      eval "$(sifmod env)"
      eval "`sifmod env --shell csh`"
      sifmod env --shell fish | source
    """
    click.echo(easybuild_settings(shell), nl=False)


@cli.command()
@click.argument("shell", type=click.Choice(COMPLETION_SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete sifmod's commands and options.

    \b
    Examples:
      eval "$(sifmod completion bash)"       in ~/.bashrc
      eval "$(sifmod completion zsh)"        in ~/.zshrc
      sifmod completion fish >~/.config/fish/completions/sifmod.fish
    """
    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())


@cli.group()
def site() -> None:
    """Show and check the settings of the cluster.

    They are merged: defaults < site file < ~/.config/sifmod/config.toml < SIFMOD_* variables < easyconfig.

    \b
    Examples:
      sifmod site list
      SIFMOD_SITE=lumi sifmod site show
      sifmod site check --site ./our-site.toml
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
        _echo_json([{"name": name, "title": title} for name, title in sites.items()])
    else:
        _echo_table(("SITE", "TITLE"), list(sites.items()))


@site.command()
@site_option
@json_option
def show(site_name: str, as_json: bool) -> None:
    """Show every setting and where it comes from.

    What an easyconfig says in gpu, binds and container_env counts before these.

    \b
    Examples:
      sifmod site show
      sifmod site show --site lumi --json
    """
    settings = load_settings(site=site_name)
    if as_json:
        _echo_json(_shown(settings))
        return
    click.echo(f"site {settings.site.name}: {settings.path}\n")
    rows = []
    for entry in settings.entries():
        value = plain(entry.value)
        text = "\n".join(value) if isinstance(value, list) else str(value or "") if value != 0 else "0"
        rows.append((entry.name, text or "-", str(entry.origin)))
    _echo_table(("SETTING", "VALUE", "ORIGIN"), rows)


def _shown(settings: Settings) -> dict[str, Any]:
    return {
        "site": settings.site.name,
        "file": str(settings.path),
        "settings": {
            entry.name: {
                "value": plain(entry.value),
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

    Exit status: 0 all is well, 1 there are problems, 4 the site's settings themselves are wrong.

    \b
    Examples:
      sifmod site check
      srun -N1 sifmod site check             on a compute node
      sifmod site check --site ./our-site.toml --json
    """
    checked = load_settings(site=site_name).site
    findings = check_site(checked)
    problems = sum(finding.status == PROBLEM for finding in findings)
    if as_json:
        _echo_json({"site": checked.name, "problems": problems, "findings": [vars(finding) for finding in findings]})
    else:
        rows = []
        for finding in findings:
            explanation = finding.meaning + (f". To do: {finding.remedy}" if finding.remedy else "")
            rows.append((finding.status, finding.key, finding.what, explanation))
        _echo_table(("STATUS", "SETTING", "WHAT", "MEANING"), rows, colours=_COLOURS)
        click.echo(
            f"\n{problems or 'no'} problem{'' if problems == 1 else 's'} with the site {checked.name} on this host"
        )
    sys.exit(1 if problems else 0)


@site.command()
@click.option("--user", "users", is_flag=True, help="Of the user's own settings, which can also name the site.")
def schema(users: bool) -> None:
    """Print the JSON schema of site files, for editors.

    \b
    Examples:
      sifmod site schema >sifmod-site.json   then begin the site file with: #:schema ./sifmod-site.json
      sifmod site schema --user
    """
    _echo_json(site_schema(users=users))


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _echo_table(
    header: tuple[str, ...], rows: Sequence[Sequence[str]], *, colours: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print a table; on a terminal, and unless NO_COLOR is set, its header is bold and its first column coloured."""
    for number, line in enumerate(table(header, rows)):
        word = line.split(" ", 1)[0]
        if os.environ.get("NO_COLOR"):
            click.echo(line)
        elif number == 0:
            click.echo(click.style(line, bold=True))
        elif word in colours:
            click.echo(click.style(word, fg=colours[word]) + line[len(word) :])
        else:
            click.echo(line)


def main() -> None:
    """Run the command line: errors that users can act on end with one line and their exit status."""
    try:
        cli.main(prog_name=PROGRAM, standalone_mode=True)
    except SifmodError as error:
        click.echo(f"sifmod: {error}", err=True)
        sys.exit(error.exit_code)
