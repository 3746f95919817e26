"""Hooks of MkDocs for the documentation as a site: `make site`. The pages are plain Markdown, readable on a forge.

The navigation is the list of docs/README.md. Pages beside docs, such as the README, become pages of the site, and links
to other files of the repository become text. The API reference has a page for each room of the library, and the live
catalogue is what `sifmod catalogue` makes of the easyconfigs that come with sifmod.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"
# Pages beside docs, and where they are in the site.
BESIDE = {
    f"{name}.md": f"project/{name.lower()}.md"
    for name in ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "MAINTAINERS", "RELEASING", "SECURITY", "SUPPORT")
}
BESIDE["README.md"] = "project/about.md"
_ORIGINS = {place: name for name, place in BESIDE.items()}
CATALOGUE = "catalogue"
EXAMPLE = f"{CATALOGUE}-example.md"
API = "api/"
# How much sooner or later than others the search shows the pages of a folder.
BOOSTS = {"howto/": 2.0, "adr/": 0.4, "benchmarks/": 0.5, "project/": 0.4, API: 0.3}

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(?ms)^```.*?^```$|^(?: {4}|\t).*?$|`[^`\n]+`")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation of the index."""
    config.nav = [
        {"Documentation": ["README.md", "tutorial.md", "operate.md"]},
        *_sections((ROOT / DOCS / "README.md").read_text()),
        {"Catalogue": EXAMPLE},
        {"API": [f"{API}{room}.md" for room in _rooms()]},
        {"Project": list(BESIDE.values())},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages beside docs, the API reference and the catalogue."""
    for name, path in BESIDE.items():
        files.append(File.generated(config, path, content=(ROOT / name).read_text()))
    for room, modules in _rooms().items():
        files.append(File.generated(config, f"{API}{room}.md", content=_api_page(room, modules)))
    files.append(File.generated(config, EXAMPLE, content=_CATALOGUE_PAGE))
    for name, content in _catalogue():
        files.append(File.generated(config, f"{CATALOGUE}/{name}", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_others: Any) -> str:
    """Lead links where their targets are in the site, or make them text; code stays as it is."""
    path = page.file.src_uri
    page.meta["search"] = {"boost": next((BOOSTS[one] for one in BOOSTS if path.startswith(one)), 1.0)}
    if path == EXAMPLE or path.startswith(API):  # written for the site
        return markdown
    origin = _ORIGINS.get(path, f"{DOCS}/{path}")
    parts, end = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_linked(markdown[end : code.start()], origin=origin, path=path), code[0]]
        end = code.end()
    parts.append(_linked(markdown[end:], origin=origin, path=path))
    return "\n".join(_deeper("".join(parts).split("\n")))


def on_post_page(output: str, **_others: Any) -> str:
    """Mend what keeps people with a screen reader or a keyboard from parts of a page."""
    return _accessible(output)


def on_post_template(output_content: str, *, template_name: str, **_others: Any) -> str:
    """Do the same for the page of unknown addresses."""
    return _accessible(output_content) if template_name == "404.html" else output_content


def _accessible(page: str) -> str:
    page = page.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
    # code and tables that are wider than the window are scrolled with the keyboard
    page = re.sub(r"<(pre|table)\b", r'<\1 tabindex="0"', page)
    titles = dict(re.findall(r'id="(__nav_\w+_label)"[^>]*>\s*(?:<[^>]*>\s*)*([^<]+?)\s*<', page))
    seen: Counter[str] = Counter()

    def named(nav: re.Match[str]) -> str:
        name = nav["name"] or titles.get(nav["of"], "")
        seen[name] += 1
        return f'{nav["begin"]} aria-label="{name}{f" ({seen[name]})" if seen[name] > 1 else ""}"'

    return re.sub(
        r'(?P<begin><nav class="md-nav[^>]*?) aria-label(?:="(?P<name>[^"]*)"|ledby="(?P<of>\w+)")', named, page
    )


def _deeper(lines: list[str]) -> Iterator[str]:
    """Yield the lines with what belongs to an item of a list below four spaces, which MkDocs wants and forges don't."""
    is_code, more = False, 0
    for line in lines:
        item = re.match(r"\d+\. |- ", line)
        if line.startswith("```"):
            is_code = not is_code
        elif item and not is_code:
            more = 4 - len(item[0])
        elif line.strip() and not line.startswith(" "):
            more = 0
        yield " " * more + line if more and line.startswith("  ") and not is_code else line


def _linked(text: str, *, origin: str, path: str) -> str:
    def lead(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if re.match(r"\w+:|#", target):
            return link[0]
        file, hash_sign, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(origin), file))
        if there.startswith(f"{DOCS}/") and (ROOT / there).is_file():
            place = there[len(DOCS) + 1 :]
        elif there in BESIDE:
            place = BESIDE[there]
        else:
            return words
        return f"{picture}[{words}]({posixpath.relpath(place, posixpath.dirname(path) or '.')}{hash_sign}{anchor})"

    return _LINK.sub(lead, text)


def _sections(index: str) -> Iterator[dict[str, list[str]]]:
    """Yield the sections of the index: a line of words, and a list in which each item has a link to a page."""
    for title, items in re.findall(r"(?m)^([A-Z][\w ]*)\n\n((?:[-] .*\n(?:  .*\n)*)+)", index):
        yield {title: re.findall(r"\]\(([^)#]+\.md)\)", items)}


def _rooms() -> dict[str, list[str]]:
    """Return the modules of each room of the library, but for the command line, by the name of the room."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src/sifmod").rglob("*.py")):
        room, *rest = path.relative_to(ROOT / "src/sifmod").with_suffix("").parts
        if room.startswith("_") or room in ("cli", "commands", "inside") or path.name == "__init__.py":
            continue
        found.setdefault(room if rest else "sifmod", []).append(".".join(("sifmod", room, *rest)))
    return dict(sorted(found.items()))


def _api_page(room: str, modules: list[str]) -> str:
    return "\n\n".join((f"# {room}", *(f"::: {module}" for module in modules))) + "\n"


def _catalogue() -> Iterator[tuple[str, bytes]]:
    """Yield the files of a catalogue of the easyconfigs that come with sifmod."""
    with tempfile.TemporaryDirectory(prefix="sifmod-") as folder:
        output = Path(folder, CATALOGUE)
        subprocess.run(
            ["sifmod", "catalogue", "--quiet", "--easyconfigs", str(ROOT / "easyconfigs"), "--output", str(output)],
            check=True,
        )
        for path in sorted(output.rglob("*")):
            if path.is_file():
                yield path.relative_to(output).as_posix(), path.read_bytes()


_CATALOGUE_PAGE = f"""# Catalogue

[The catalogue of the easyconfigs that come with sifmod]({CATALOGUE}/index.html) is what a centre's users get: they
search for a command or a package, and copy the line to type. Here nothing is installed, so packages and sizes are those
that the easyconfigs name. [How to publish one of what is installed](howto/publish-a-catalogue.md).
"""
