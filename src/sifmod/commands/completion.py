"""`sifmod completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sifmod.commands import PROGRAM
from sifmod.commands.output import echo_whole

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete sifmod's commands and options.

    \b
    Examples:
      eval "$(sifmod completion bash)"       in ~/.bashrc
      eval "$(sifmod completion zsh)"        in ~/.zshrc
      sifmod completion fish >~/.config/fish/completions/sifmod.fish
    """
    made = get_completion_class(shell)
    if made is not None:
        echo_whole(made(context.find_root().command, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
