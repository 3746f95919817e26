"""What the verbs about installations share: the option --prefix, and completion of module names."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import click
from click.shell_completion import CompletionItem

from sifmod.eb.space import software_space
from sifmod.errors import SifmodError
from sifmod.installed.installation import find_installations

prefix_option = click.option(
    "--prefix",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=None,
    help="EasyBuild prefix to look at, instead of that of EASYBUILD_* and EasyBuild's own files.",
)


def complete_modules(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the modules that are installed."""
    prefix: Optional[Path] = context.params.get("prefix")
    try:
        found = find_installations(software_space(prefix)).installations
    except SifmodError:
        return []
    return [CompletionItem(item.module) for item in found if item.module.startswith(incomplete)]
