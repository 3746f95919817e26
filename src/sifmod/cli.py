"""The `sifmod` command: a thin layer over the library."""

from __future__ import annotations

import importlib
import sys
from typing import Optional

import click

from sifmod import __version__
from sifmod.commands import PROGRAM
from sifmod.errors import SifmodError

# The verbs, each a module of `sifmod.commands`, with what the list of them says in one line of 80 columns.
_VERBS = {
    "completion": "Print the script that completes commands in a shell.",
    "convert": "Convert an easyconfig in the style of LUMI's containers.",
    "doctor": "Find what on this host, or in an image, will not work.",
    "env": "Print the settings with which EasyBuild finds sifmod.",
    "inspect": "Show what is in an image, without running it.",
    "kernel": "Write a Jupyter kernel that runs in a container.",
    "list": "List the installed containers.",
    "new": "Write an easyconfig for an image.",
    "remove": "Remove an installed container.",
    "render": "Print what an install of an easyconfig would write.",
    "sbatch": "Print a job script that runs Python in a container.",
    "show": "Show everything about one installed container.",
    "site": "Show and check the settings of the cluster.",
    "verify": "Compare installed containers with what was installed.",
}


class Verbs(click.Group):
    """The verbs of the command line; the module of one is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names of the verbs."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:  # noqa: ARG002 - likewise
        """Return a verb; None if there is no such one."""
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f"sifmod.commands.{cmd_name}")
        found = (value for value in vars(module).values() if isinstance(value, click.Command))
        return next(command for command in found if command.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        """Write the list of the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
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
      sifmod site check                      see whether the site fits this host
      sifmod sbatch PyTorch/2.2.0 -N 2 -- train.py   print a job script
      eval "$(sifmod env)"                   let EasyBuild's module find sifmod
    """


def main() -> None:
    """Run the command line: errors that users can act on end with one line and their exit status."""
    try:
        cli.main(prog_name=PROGRAM, standalone_mode=True)
    except (SifmodError, OSError) as error:
        # of the system: a path that may not be looked at, a disk that is full; the message names it
        from sifmod.commands.output import echo_error

        echo_error(f"{PROGRAM}: {error}")
        sys.exit(error.exit_code if isinstance(error, SifmodError) else 1)
