"""The text of an easyconfig: parameters as Python, and Python as parameters."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sifmod import __version__
from sifmod.container.parameters import GROUPS, PARAMETERS
from sifmod.errors import SifmodError
from sifmod.host.files import content_of
from sifmod.text import quoting

_LARGEST = 1 << 20  # bytes of an easyconfig, which Python parses
_WIDTH = 118
_INDENT = " " * 4


def easyconfig_text(parameters: Mapping[str, Any], *, comments: Sequence[str]) -> str:
    """Return the text of an easyconfig, with `toolchain = SYSTEM`; `%(name)s` in a value is a template of EasyBuild.

    Comments for its top that begin with `- ` are items of a list, and those that begin with four spaces are commands,
    which stay on one line, however long.

    Raises:
        TypeError: a value can't be written as Python.
        ValueError: a parameter is not in `PARAMETERS`.
    """
    unplaced = sorted(set(parameters) - set(PARAMETERS))
    if unplaced:
        raise ValueError(f"no place in an easyconfig is known for {', '.join(unplaced)}")
    blocks = []
    for group in GROUPS:
        lines = [_assignment(name, parameters[name]) for name in group if name in parameters]
        blocks.append("\n".join(["toolchain = SYSTEM"] if group == ("toolchain",) else lines))
    head = "".join(f"{line}\n" for comment in comments for line in _comment(comment))
    return head + "\n\n".join(filter(None, blocks)) + "\n"


def conversion_comments(origin: str, *more: str, lost: Iterable[str], look: Iterable[str]) -> list[str]:
    """Return the comments of a converted easyconfig: its origin and more on that, what is lost, what to look at."""
    comments = [f"Converted by sifmod {__version__} from {origin}", *more]
    for heading, notes in (("Not carried over:", lost), ("To be reviewed:", look)):
        items = [f"- {note}" for note in dict.fromkeys(notes)]
        comments += [heading, *items] if items else []
    return comments


def _comment(text: str) -> list[str]:
    if text.startswith("    "):
        return [f"#     {quoting.comment(text)}"]
    return textwrap.wrap(
        quoting.comment(text),
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="#   " if text.startswith("- ") else "# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def folded(text: str) -> str:
    """Return a description of one line, broken to an easyconfig's width if it can stand in triple quotes as it is."""
    begin = 'description = """'
    filled = textwrap.fill(begin + text, _WIDTH, break_long_words=False, break_on_hyphens=False)[len(begin) :]
    return filled if _is_block(filled) else text


def _is_block(text: str) -> bool:
    """Return whether a text can stand in triple quotes as it is."""
    return (
        all(char == "\n" or char.isprintable() for char in text)
        and '"""' not in text
        and "\\" not in text
        and not text.endswith('"')
        and not re.search(r" $", text, re.MULTILINE)
        # EasyBuild reads lines such as `# EASYCONFIGFORMAT 1.0` and `[SUPPORTED]` also within quotes
        and not re.search(r"^\s*[#[]", text, re.MULTILINE)
    )


def _assignment(name: str, value: Any) -> str:
    if isinstance(value, str) and "\n" in value and _is_block(value):
        block = f'{name} = """{value}"""'
        if max(map(len, block.splitlines())) <= _WIDTH:
            return block
    return f"{name} = {_literal(value, before=len(name) + len(' = '))}"


def _literal(value: Any, *, before: int, indent: int = 0) -> str:
    """Return a value as Python, on several lines if one is too long for `eb --check-style`."""
    line = quoting.python(value)
    if before + len(line) <= _WIDTH or not isinstance(value, (str, list, tuple, Mapping)):
        return line
    inner = indent + len(_INDENT)
    begin, end = "()"
    if isinstance(value, str):
        rows = list(_pieces(value, _WIDTH - inner))
    elif isinstance(value, Mapping):
        begin, end = "{}"
        rows = [_item(key, item, indent=inner) for key, item in value.items()]
    else:
        begin, end = "[]" if isinstance(value, list) else "()"
        rows = [f"{_literal(item, before=inner, indent=inner)}," for item in value]
    return "\n".join([begin, *(f"{' ' * inner}{row}" for row in rows), f"{' ' * indent}{end}"])


def _item(key: Any, value: Any, *, indent: int) -> str:
    name = f"{_literal(key, before=indent + len(': '), indent=indent)}: "
    last_line = name.rpartition("\n")[2]
    return f"{name}{_literal(value, before=indent + len(last_line), indent=indent)},"


def _pieces(text: str, room: int) -> Iterator[str]:
    """Yield string literals of limited length that Python joins to a text; they end between words if possible.

    A digest, which people copy, is a word.
    """
    piece = ""
    for word in re.findall(r"@sha256:\S*\s*|(?:(?!@sha256:)\S)+\s*|\s+", text):
        for part in [word] if len(repr(word)) <= room else word:
            if len(repr(piece + part)) > room:
                yield repr(piece)
                piece = ""
            piece += part
    yield repr(piece)


def read_easyconfig(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters of an easyconfig with literal values, and the names of those that are computed.

    The file is parsed, not run, so values that it computes, for example from its own variables, are unknown.

    Raises:
        SifmodError: it can't be read, or is not an easyconfig of `ContainerImage`.
    """
    try:
        if path.exists() and not path.is_file():
            raise SifmodError(f"'{path}' is not a file: give the path of an easyconfig")
        tree = ast.parse(content_of(path, most=_LARGEST).decode())
    except OSError as error:
        raise SifmodError(f"the easyconfig '{path}' can't be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SifmodError(f"'{path}' is not an easyconfig: {error}") from error
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
        raise SifmodError(f"'{path}' is not a container easyconfig: its easyblock is not ContainerImage")
    return known, tuple(computed)
