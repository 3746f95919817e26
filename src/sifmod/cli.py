"""The `sifmod` command: a thin layer over the library."""

from __future__ import annotations

import importlib
import sys
from typing import Optional

import click

from sifmod import __version__
from sifmod.commands import PROGRAM
from sifmod.commands.stream import checked_output, discard_output, opened
from sifmod.errors import OutputError, SifmodError

# The verbs, each a module of `sifmod.commands`, with their summaries; each fits a line of 80 columns.
_VERBS = {
    "build-wheel": "Build wheels for a module whose image has no compiler.",
    "catalogue": "Write web pages of the containers, to search in.",
    "completion": "Print the completion script of a shell.",
    "convert": "Convert LUMI's container easyconfigs, and recipes of SHPC.",
    "doctor": "Find problems on this host or in an image.",
    "env": "Print the settings that let EasyBuild find sifmod.",
    "environment": "Write an easyconfig for an image with a file's packages.",
    "help": "Print a page of the documentation.",
    "inspect": "Show what is in an image, without running it.",
    "keep": "Copy user software elsewhere, or put it back.",
    "kernel": "Write a Jupyter kernel that runs in a container.",
    "list": "List the installed containers.",
    "new": "Write an easyconfig for an image.",
    "on": "Write an easyconfig for a module on top of another one.",
    "outdated": "Ask registries for newer images of installed containers.",
    "remove": "Remove an installed container.",
    "render": "Print the files that an install would write.",
    "sbatch": "Print a job script that runs Python in a container.",
    "serve": "Show and stop the servers of models that your jobs run.",
    "show": "Show everything about one installed container.",
    "site": "Show and check the settings of the cluster.",
    "verify": "Check that installed containers are intact and run.",
    "workflows": "Write what Nextflow, Snakemake and ReFrame need.",
}


class Verbs(click.Group):
    """The verbs of the command line; a verb's module is imported when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names of the verbs."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:  # noqa: ARG002 - likewise
        """Return a verb; None if it is unknown."""
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f"sifmod.commands.{cmd_name.replace('-', '_')}")
        found = (value for value in vars(module).values() if isinstance(value, click.Command))
        return next(command for command in found if command.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[Optional[str], Optional[click.Command], list[str]]:
        """Return the verb that is called, and the words after it; an unknown one ends with the most similar."""
        if not args[0].startswith("-") and args[0] not in _VERBS and not ctx.resilient_parsing:
            from sifmod.text.suggest import perhaps

            raise click.UsageError(f"there is no command '{args[0]}'{perhaps(args[0], _VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        """Write the list of verbs without importing their modules."""
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
      sifmod doctor                          see whether this host is ready for it
      sifmod site check                      see whether the site fits this host
      sifmod sbatch PyTorch/2.2.0 -N 2 -- train.py   print a job script
      eval "$(sifmod env)"                   let EasyBuild's module find sifmod
    """


def main() -> None:
    """Run the command line; an error that users can act on prints one line and sets the exit status."""
    sys.stdout, sys.stderr = checked_output(sys.stdout), opened(sys.stderr)
    try:
        cli.main(prog_name=PROGRAM, standalone_mode=True)
    except (SifmodError, OSError) as error:
        # OSError: a path that may not be read, a full disk; the message names it
        from sifmod.commands.output import echo_error

        if isinstance(error, OutputError):
            discard_output()
        echo_error(f"{PROGRAM}: {error}")
        sys.exit(error.exit_code if isinstance(error, SifmodError) else 1)
