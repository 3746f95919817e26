"""`sifmod env`: print the settings that let EasyBuild find sifmod."""

from __future__ import annotations

import shutil
import sysconfig

import click

from sifmod.commands import PROGRAM
from sifmod.commands.output import echo_error, echo_whole
from sifmod.eb.robot import SHELLS, easybuild_settings


@click.command()
@click.option(
    "--shell", type=click.Choice(SHELLS), default="bash", show_default=True, help="Shell to print commands for."
)
def env(shell: str) -> None:
    """Print settings that let any EasyBuild find sifmod's easyblock and easyconfigs.

    Not needed if sifmod is installed into the same Python environment as EasyBuild.

    \b
    Examples:
      eval "$(sifmod env)"
      eval "`sifmod env --shell csh`"
      sifmod env --shell fish | source
    """
    echo_whole(easybuild_settings(shell))
    if not shutil.which(PROGRAM):
        echo_error(f"{PROGRAM}: the command itself is in {sysconfig.get_path('scripts')}: add this folder to PATH")
