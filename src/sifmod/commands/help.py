"""`sifmod help`: print a page of the documentation, which comes with sifmod."""

from __future__ import annotations

from pathlib import Path

import click

from sifmod.commands.output import echo_table, echo_whole
from sifmod.resources import data_path
from sifmod.text.suggest import perhaps

# Those for people who use sifmod; other folders are for who changes it.
_FOLDERS = ("", "howto", "reference", "explanation")
_INDEX = "README"


@click.command("help")
@click.argument("page", default="")
@click.pass_context
def print_page(context: click.Context, page: str) -> None:
    """Print a page of the documentation, in Markdown.

    Without PAGE, list all. The name of a command prints what COMMAND --help does.

    \b
    Examples:
      sifmod help                            list the pages
      sifmod help extend-and-pack | less     one of them
      sifmod help new                        the options of a command
    """
    pages = {path.stem: path for folder in _FOLDERS for path in sorted((data_path("docs") / folder).glob("*.md"))}
    pages.pop(_INDEX, None)
    if not page:
        echo_table(("PAGE", "TITLE"), [(name, _title(path)) for name, path in pages.items()])
        return
    above = context.find_root()
    verb = above.command.get_command(above, page) if isinstance(above.command, click.Group) else None
    if verb:
        echo_whole(verb.get_help(click.Context(verb, info_name=page, parent=above)))
        return
    name = Path(page).stem  # a path of the documentation, too
    if name not in pages:
        raise click.UsageError(f"there is no page '{page}'{perhaps(name, pages)}: see 'sifmod help'")
    echo_whole(pages[name].read_text(encoding="utf-8"))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()
