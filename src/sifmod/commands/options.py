"""Options that several verbs share, and the completion of their values."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar

import click
from click.shell_completion import CompletionItem

from sifmod.eb.space import software_space
from sifmod.errors import SifmodError
from sifmod.installed.installation import find_installations
from sifmod.site.settings import shipped_sites

_Function = TypeVar("_Function", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for other programs.")

prefix_option = click.option(
    "--prefix",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=None,
    help="EasyBuild prefix to use instead of the configured one.",
)


class OutputPath(click.Path):
    """The path of what is written: one that ends with a slash is a folder, which must be there."""

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        """Return what `click.Path` returns; a folder that is not there is refused."""
        if str(value).endswith("/") and not Path(value).is_dir():
            self.fail(f"there is no folder '{value}': make it with: mkdir -p {shlex.quote(str(value))}", param, ctx)
        return super().convert(value, param, ctx)


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print only what is wrong: for cron.")


def complete_modules(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of installed modules."""
    prefix: Optional[Path] = context.params.get("prefix")
    try:
        found = find_installations(software_space(prefix)).installations
    except SifmodError:
        return []
    return [CompletionItem(item.module) for item in found if item.module.startswith(incomplete)]


def _complete_sites(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in shipped_sites() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


site_option = click.option(
    "--site",
    "site_name",
    metavar="NAME|PATH",
    default="",
    shell_complete=_complete_sites,
    help="Shipped site or site file to use instead of the configured one.",
)
