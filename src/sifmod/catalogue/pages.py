"""The files of a catalogue: JSON and its schema, pages, and the script and style that they use."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from sifmod import __version__
from sifmod.catalogue.index import search_script
from sifmod.catalogue.model import BEGIN, INSTALLED, Catalogue, Entry
from sifmod.container.gpu import VENDORS
from sifmod.resources import data_path
from sifmod.text.size import counted, size_text

TITLE = "Containers"
_DATA = "catalogue.json"
# Copied as they lie.
_PLAIN = ("catalogue.schema.json", "catalogue.css", "copy.js", "search.js")
_TOP = frozenset({_DATA, *_PLAIN, "index.html", "search-data.js", "modules"})


def catalogue_files(catalogue: Catalogue, *, title: str = TITLE) -> dict[str, str]:
    """Return the text of each file of a catalogue, by its path; the same for the same catalogue."""
    return dict(_files(catalogue, title))


def is_catalogue(folder: Path) -> bool:
    """Return whether a folder has the data of a catalogue, and nothing else; OSError if it can't be read."""
    found = {path.name for path in folder.iterdir()}
    data, pages = folder / _DATA, folder / "modules"
    if not (found <= _TOP and data.is_file() and pages.is_dir()):
        return False
    if any(path.suffix != ".html" for path in pages.iterdir()):
        return False
    with data.open("rb") as stream:  # other programs have a file of this name too
        return stream.read(len(BEGIN)) == BEGIN.encode()


def _files(catalogue: Catalogue, title: str) -> Iterator[tuple[str, str]]:
    yield _DATA, catalogue.text
    for name in _PLAIN:
        yield name, (data_path("catalogue") / name).read_text(encoding="utf-8")
    yield "search-data.js", search_script(catalogue.modules)
    shared = {"catalogue": catalogue, "title": title, "sifmod_version": __version__}
    yield "index.html", _templates().get_template("index.html.j2").render(shared)
    page = _templates().get_template("module.html.j2")
    versions: dict[str, list[Entry]] = {}
    for entry in catalogue.modules:
        versions.setdefault(entry.name, []).append(entry)
    for entry in catalogue.modules:
        yield entry.page, page.render(shared, entry=entry, versions=versions[entry.name])


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_path("catalogue")),
        autoescape=True,  # all that images and easyconfigs say is foreign
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(markdown=_markdown, size=size_text, vendor=_vendor, counted=counted)
    environment.globals.update(INSTALLED=INSTALLED)
    return environment


def _vendor(key: str) -> str:
    return VENDORS[key].name if key in VENDORS else key


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """Return a parser for which HTML is text, and a picture its description: it may be somebody else's."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("image", lambda _self, tokens, number, _options, _env: html.escape(tokens[number].content))
    return parser


def _markdown(text: str) -> Markup:
    """Return Markdown as HTML; its headings go below those of the page."""
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704 - the parser escapes HTML
