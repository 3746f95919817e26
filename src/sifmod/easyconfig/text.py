"""The text of an easyconfig: parameters as Python, and Python as parameters."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sifmod.errors import SifmodError
from sifmod.text import quoting

_WIDTH = 118
# Groups with an empty line between them, as in the easyconfigs that come with sifmod.
_GROUPS = (
    ("easyblock",),
    ("name", "version", "versionsuffix"),
    ("homepage", "description", "whatis", "docurls"),
    ("toolchain",),
    ("sources", "checksums", "image_uri", "image_mode"),
    (
        *("gpu", "conda_root", "conda_env", "python_prefix", "venv", "pip_requirements", "pack_user_software"),
        *("pip_constraints", "launch", "wrappers", "binds", "container_env", "module_family", "expected_packages"),
    ),
    ("moduleclass",),
)
ORDER = tuple(name for group in _GROUPS for name in group)


def easyconfig_text(parameters: Mapping[str, Any], *, comment: str) -> str:
    """Return an easyconfig; `toolchain = SYSTEM` is added.

    Args:
        parameters: names of `ORDER`, and their values.
        comment: one line for its head.
    """
    blocks = []
    for group in _GROUPS:
        lines = [_assignment(name, parameters[name]) for name in group if name in parameters]
        blocks.append("\n".join(["toolchain = SYSTEM"] if group == ("toolchain",) else lines))
    return f"# {quoting.comment(comment)}\n" + "\n\n".join(filter(None, blocks)) + "\n"


def _assignment(name: str, value: Any) -> str:
    line = f"{name} = {quoting.easyconfig(value)}"
    if name == "description" and value.isprintable() and not set(value) & set('"\\%'):
        return textwrap.fill(f'{name} = """{value}"""', _WIDTH, break_long_words=False, break_on_hyphens=False)
    if len(line) <= _WIDTH or not isinstance(value, (list, tuple, Mapping)):
        return line
    items = value.items() if isinstance(value, Mapping) else value
    begin, end = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    rows = [
        f"    {': '.join(map(quoting.easyconfig, item)) if isinstance(value, Mapping) else quoting.easyconfig(item)},"
        for item in items
    ]
    return "\n".join([f"{name} = {begin}", *rows, end])


def read_easyconfig(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters of an easyconfig that are written out, and the names of those that are computed.

    The file is read, not run: what it computes, from variables of its own for example, is not known.

    Raises:
        SifmodError: it can't be read, or is no easyconfig of `ContainerImage`.
    """
    if path.exists() and not path.is_file():
        raise SifmodError(f"'{path}' is no file: give the path of an easyconfig")
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SifmodError(f"the easyconfig '{path}' can't be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SifmodError(f"'{path}' is no easyconfig: {error}") from error
    known: dict[str, Any] = {}
    computed: dict[str, None] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name = statement.targets[0].id
        known.pop(name, None)
        try:
            known[name] = ast.literal_eval(statement.value)
            computed.pop(name, None)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            computed[name] = None
    if known.get("easyblock") != "ContainerImage":
        raise SifmodError(f"'{path}' is no easyconfig of a container: its easyblock is not ContainerImage")
    return known, tuple(computed)
