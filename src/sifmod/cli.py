"""The `sifmod` command: a thin layer over the library."""

from __future__ import annotations

import sys

import click

from sifmod import __version__
from sifmod.errors import SifmodError
from sifmod.robot import SHELLS, easybuild_settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sifmod")
def cli() -> None:
    r"""Container images as environment modules, installed with EasyBuild.

    \b
    Examples:
      eb Python-3.11-demo-singularity.eb     install a container (EasyBuild)
      eval "$(sifmod env)"                   tell an EasyBuild that is a module about sifmod
    """


@cli.command()
@click.option(
    "--shell", type=click.Choice(SHELLS), default="bash", show_default=True, help="Language of the shell to print for."
)
def env(shell: str) -> None:
    r"""Print the settings with which any EasyBuild finds sifmod's easyblock and easyconfigs.

    Not needed where sifmod is installed into the same Python environment as EasyBuild.

    \b
    Examples:
      eval "$(sifmod env)"
      eval `sifmod env --shell csh`
      sifmod env --shell fish | source
    """
    click.echo(easybuild_settings(shell), nl=False)


def main() -> None:
    """Run the command line: errors that users can act on end with one line and their exit status."""
    try:
        cli.main(standalone_mode=True)
    except SifmodError as error:
        click.echo(f"sifmod: {error}", err=True)
        sys.exit(error.exit_code)
