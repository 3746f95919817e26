"""Writes the parts of the reference that are made from the code: `make docs`.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. With --check nothing is written; the exit status is
1 if a part is not what the code says.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from sifmod.container.parameters import OWN
from sifmod.container.variables import HOST_VARIABLES
from sifmod.site.advisory import ENTRY_KEYS, MATCH_KEYS
from sifmod.site.feature import FEATURE_KEYS
from sifmod.site.keys import Key, plain
from sifmod.site.server import SERVER_KEYS
from sifmod.site.settings import KEYS

ROOT = Path(__file__).parents[1]


def site_keys() -> Iterator[str]:
    """The keys of site files, from their definition."""
    yield "| key | takes | default | meaning |"
    yield "|---|---|---|---|"
    for key in KEYS.values():
        default = plain(key.default)
        shown = f"`{str(default).lower() if isinstance(default, bool) else default}`" if default or default == 0 else ""
        yield f"| `{key.name}` | {key.kind.title} | {shown} | {key.help_text} |"


def keys(known: Mapping[str, Key], *, meaning: str = "meaning") -> Iterator[str]:
    """Some keys, from their definition."""
    yield f"| key | takes | {meaning} |"
    yield "|---|---|---|"
    for key in known.values():
        yield f"| `{key.name}` | {key.kind.title} | {key.help_text} |"


def parameters() -> Iterator[str]:
    """The easyblock's own parameters, from their table."""
    yield "| parameter | takes | meaning |"
    yield "|---|---|---|"
    for name, one in OWN.items():
        if one.kind:
            yield f"| `{name}` | {one.kind.title} | {one.help_text} |"


def host_variables() -> Iterator[str]:
    """The variables that only the container gets."""
    yield from textwrap.wrap(", ".join(f"`{pattern}`" for pattern in HOST_VARIABLES) + ".", 120)


def tools() -> Iterator[str]:
    """The shipped easyconfigs of tools by class: those whose first line names the recipe that their facts are from."""
    yield "| class | module | what it is | commands | image |"
    yield "|---|---|---|---|---|"
    rows = []
    for path in (ROOT / "easyconfigs").rglob("*.eb"):
        text = path.read_text()
        source = re.match(r"# Facts: SHPC's recipe of (\S+), tag ([\w.-]*\w)", text)
        if not source:
            continue
        values = {
            ast.unparse(one.targets[0]): ast.literal_eval(one.value)
            for one in ast.parse(text).body
            if isinstance(one, ast.Assign) and not isinstance(one.value, ast.Name)
        }
        module = f"{values['name']}/{values['version']}{values['versionsuffix']}"
        what = values["whatis"][0].partition(": ")[2]
        commands = ", ".join(f"`{name}`" for name in values["wrappers"])
        image = f"`{source[1]}:{source[2]}`"
        rows.append(f"| {values['moduleclass']} | `{module}` | {what} | {commands} | {image} |")
    yield from sorted(rows, key=str.lower)


PARTS: Mapping[str, Mapping[str, Callable[[], Iterator[str]]]] = {
    "docs/reference/variables.md": {"host variables": host_variables},
    "docs/reference/sites.md": {"site keys": site_keys, "feature keys": partial(keys, FEATURE_KEYS)},
    "docs/reference/advisories.md": {
        "advisory keys": partial(keys, ENTRY_KEYS),
        "conditions": partial(keys, MATCH_KEYS, meaning="holds if"),
    },
    "docs/reference/commands.md": {"server keys": partial(keys, SERVER_KEYS)},
    "docs/reference/parameters.md": {"parameters": parameters},
    "docs/reference/tools.md": {"tools": tools},
}


def main() -> int:
    """Write the parts, or check them."""
    wrong = 0
    for page, parts in PARTS.items():
        path = ROOT / page
        text = before = path.read_text()
        for name, lines in parts.items():
            made = "\n".join([f"<!-- generated: {name} -->", *lines(), "<!-- end -->"])
            old = re.findall(rf"(?s)<!-- generated: {name} -->.*?<!-- end -->", text)
            if len(old) != 1:
                print(f"{page}: there is no part '{name}'", file=sys.stderr)
                return 1
            text = text.replace(old[0], made)
        if text != before and "--check" in sys.argv[1:]:
            print(f"{page} is not what the code says: make docs", file=sys.stderr)
            wrong = 1
        elif text != before:
            path.write_text(text)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
