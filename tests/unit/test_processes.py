"""One module starts processes: what it promises (time limits, whole groups, text of any kind) holds everywhere."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

# Programs in inside/ run in containers, where there is no sifmod.
FILES = sorted(
    path
    for path in (*TOP.glob("src/**/*.py"), *TOP.glob("easyblocks/**/*.py"))
    if path != TOP / "src/sifmod/host/command.py" and TOP / "src/sifmod/inside" not in path.parents
)

MODULES = {"subprocess", "multiprocessing", "pty", "popen2", "commands"}
FUNCTIONS = ("system", "popen", "fork", "forkpty", "exec", "spawn", "posix_spawn", "startfile")
EASYBUILD = {"run_shell_cmd", "run_cmd", "run_cmd_qa"}


def starts(code: str) -> Iterator[str]:
    """Yield what starts a process in the text of a module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in MODULES:
                yield node.module
            for name in node.names:
                if name.name in EASYBUILD or (node.module == "os" and name.name.startswith(FUNCTIONS)):
                    yield name.name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr.startswith(FUNCTIONS):
                yield node.attr
            if node.attr.startswith("create_subprocess"):
                yield node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TOP)))
def test_no_other_module_starts_processes(path: Path) -> None:
    assert list(starts(path.read_text(encoding="utf-8"))) == [], "use sifmod.host.command.run"


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "from subprocess import run",
        "import os\nos.system('x')",
        "from os import execv",
        "from easybuild.tools.run import run_shell_cmd",
        "import multiprocessing.pool",
    ],
)
def test_ways_to_start_a_process_are_seen(code: str) -> None:
    assert list(starts(code))
