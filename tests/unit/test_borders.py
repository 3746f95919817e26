"""How often files are opened, copied or renamed by name, which may only become less.

A user who may write to a folder on the way can let a name lead to another file between two looks. In `borders.txt` is
the number of such calls of each file, and a reason where the path can come from the working directory, a clone, an
archive or a folder that others share. `make golden` writes lower numbers.
"""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("borders.txt")
# The functions for files that others may swap; and data of the package.
LEFT_OUT = {f"src/sifmod/{name}.py" for name in ("host/files", "host/writing", "resources")}
LEFT_OUT.add("wrappers/share/on-node.sh")

MODULES = {
    "os": {"open", "rename", "replace", "link", "symlink"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "unpack_archive"},
}
METHODS = {"open", "rename", "symlink_to", "hardlink_to", "read_text", "read_bytes", "write_text", "write_bytes"}


def python_lines(text: str) -> Iterator[int]:
    """Yield the line of each call by name; one with an opener or a descriptor looks at what is open."""
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call) or {"dir_fd", "src_dir_fd", "opener"} & {key.arg for key in call.keywords}:
            continue
        if isinstance(call.func, ast.Name):
            is_one = call.func.id == "open"
        elif isinstance(call.func, ast.Attribute):
            module = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
            is_one = call.func.attr in MODULES.get(module, METHODS)
            # a path's; the method of a text has two arguments
            is_one |= module not in MODULES and call.func.attr == "replace" and len(call.args) == 1
        else:
            continue
        if is_one:
            yield call.lineno


# a program with options or a path, and a redirection to a path with a variable that is not of an open file
SHELL = re.compile(
    r"""\b(?:cp|mv|ln|mkdir|mktemp|rm|rmdir|touch|chmod)\ (?=[-"$])"""
    r"""|(?<![<>])(?:<|<>|>|>>)(?=\$[^(]|"(?!/proc/)[^"]*\$)"""
)


def shell_lines(text: str) -> Iterator[int]:
    """Yield the line of each program and redirection that opens, makes, copies, renames or removes by name."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("#"):
            yield from (number for _ in SHELL.finditer(line))


KINDS = (
    *((folder, "*.py", python_lines) for folder in ("src/sifmod", "easyblocks")),
    *((f"wrappers/{folder}", "*", shell_lines) for folder in ("bin", "runscripts", "share")),
)


def test_calls_by_name_only_become_fewer() -> None:
    found: dict[str, list[int]] = {}
    for folder, pattern, lines_of in KINDS:
        for path in (ROOT / folder).rglob(pattern):
            name = str(path.relative_to(ROOT))
            lines = [] if name in LEFT_OUT or path.is_symlink() else sorted(lines_of(path.read_text()))
            if lines:
                found[name] = lines
    table = dict(line.split(" ", 1) for line in TABLE.read_text().splitlines())
    if os.environ.get("SIFMOD_UPDATE_GOLDEN"):
        parts = {name: text.split(" ") for name, text in sorted(table.items()) if name in found}
        table = {name: " ".join([str(min(int(most), len(found[name]))), *why]) for name, (most, *why) in parts.items()}
        TABLE.write_text("".join(f"{name} {text}\n" for name, text in table.items()))
    allowed = {name: int(text.split()[0]) for name, text in table.items()}
    counted = {name: len(lines) for name, lines in found.items()}
    places = {name: found.get(name) for name in counted.keys() | allowed if counted.get(name) != allowed.get(name)}
    advice = "look once, with host/files.py or host/writing.py, in bash with own_folder; fewer ones: make golden"
    assert counted == allowed, f"{advice}: {places}"
