"""Each promise and each journey of the documents has a test in `make test`: the table of CONTRIBUTING.md."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "CONTRIBUTING.md").read_text().partition("### What `make test` holds")[2].partition("\n## ")[0]
ROWS = re.findall(r"(?m)^\| (.+) \| `([^`]+)::(\w+)` \|$", TABLE)
JOURNEYS = sorted(path.relative_to(ROOT) for path in (ROOT / "docs/howto").glob("*.md"))

# Those whose tests do not use the real tools, or not all of them: what they need is not in the testbed.
NEED_GPUS = ["run nccl tests", "use old gpus"]
WITH_STAND_INS = ["use enroot", "newer CUDA on an older driver"]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def is_slow(node: ast.expr) -> bool:
    """Return whether a decorator, or what a file's `pytestmark` is, marks all of it as slow."""
    return "pytest.mark.slow" in [ast.unparse(mark) for mark in getattr(node, "elts", [node])]


@pytest.mark.parametrize(("promise", "file", "name"), ROWS, ids=[f"{file}::{name}" for _, file, name in ROWS])
def test_a_promise_has_a_test_that_make_test_runs(promise: str, file: str, name: str) -> None:
    body = parsed(ROOT / "tests" / file).body
    (found,) = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert not any(map(is_slow, found.decorator_list)), promise
    marks = [
        node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    assert not any(map(is_slow, marks)), promise


def test_all_but_these_use_the_real_tools() -> None:
    files = {promise.partition("]")[0][1:]: ROOT / "tests" / file for promise, file, _ in ROWS}
    in_units = [name for name, file in files.items() if file.parent.name != "integration"]
    with_stand_ins = [name for name in files if name not in in_units and "tests.standins" in files[name].read_text()]
    assert (in_units, with_stand_ins) == (NEED_GPUS, WITH_STAND_INS)


@pytest.mark.parametrize("journey", JOURNEYS, ids=str)
def test_each_journey_of_the_documents_is_in_the_table(journey: Path) -> None:
    assert [row for row in ROWS if f"({journey})" in row[0]]


def test_every_line_of_the_table_was_read() -> None:
    assert len(ROWS) == len(re.findall(r"(?m)^\|", TABLE)) - 2
