"""The `sifmod` command: a thin layer over the library."""

from __future__ import annotations

import sys

import click

from sifmod import __version__
from sifmod.commands import PROGRAM
from sifmod.commands.completion import completion
from sifmod.commands.convert import convert
from sifmod.commands.doctor import doctor
from sifmod.commands.env import env
from sifmod.commands.inspect import inspect
from sifmod.commands.kernel import kernel
from sifmod.commands.list import list_installed
from sifmod.commands.new import new
from sifmod.commands.remove import remove
from sifmod.commands.render import render
from sifmod.commands.sbatch import sbatch
from sifmod.commands.show import show
from sifmod.commands.site import site
from sifmod.commands.verify import verify
from sifmod.errors import SifmodError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """Container images as environment modules, installed with EasyBuild.

    \b
    Examples:
      eb Python-3.11-demo-singularity.eb     install a container (EasyBuild)
      sifmod inspect my-image.sif            see what is in an image
      sifmod new my-image.sif                write an easyconfig for it
      sifmod list                            see what is installed
      sifmod doctor                          see whether this host is fit for it
      sifmod site check                      see whether the site's settings fit this host
      sifmod sbatch PyTorch/2.2.0 -N 2 -- train.py   print a job script
      eval "$(sifmod env)"                   tell an EasyBuild that is a module about sifmod
    """


for command in (
    completion,
    convert,
    doctor,
    env,
    inspect,
    kernel,
    list_installed,
    new,
    remove,
    render,
    sbatch,
    show,
    site,
    verify,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line: errors that users can act on end with one line and their exit status."""
    try:
        cli.main(prog_name=PROGRAM, standalone_mode=True)
    except SifmodError as error:
        click.echo(f"sifmod: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a path that may not be looked at, a disk that is full: the message names it
        click.echo(f"sifmod: {error}", err=True)
        sys.exit(1)
