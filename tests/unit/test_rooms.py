"""The rooms of the library look down only, as the table of CONTRIBUTING.md says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sifmod

PACKAGE = Path(sifmod.__file__).parent
ROOT = Path(__file__).resolve().parents[2]

# room -> the question that it answers, and the rooms that it may import; at the root lies what every room may import.
ROWS = {
    room: (answer, [] if below == "-" else below.split(", "))
    for room, answer, below in re.findall(
        r"(?m)^\| `(\w+)/` \| (.+) \| (.+) \|$", (ROOT / "CONTRIBUTING.md").read_text()
    )
}
ROOMS = {room: below for room, (_, below) in ROWS.items()}
AT_THE_ROOT = ("errors", "names", "artefact", "finding", "resources")


def imports(path: Path) -> Iterator[str]:
    """Yield the parts behind `sifmod.` of each name that a module imports from sifmod."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in found if name.startswith("sifmod."))


def test_folders_are_rooms_of_the_table_and_no_room_looks_up() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/*.py")} == set(ROOMS)
    seen: set[str] = set()
    for room in reversed(ROOMS):
        assert set(ROOMS[room]) <= seen
        seen.add(room)


@pytest.mark.parametrize("leaf", ["environment", "wheels", "migrate", "catalogue", "upkeep"])
def test_a_leaf_is_imported_by_commands_alone(leaf: str) -> None:
    assert [room for room, below in ROOMS.items() if leaf in below] == ["commands"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    allowed = {room, *ROOMS[room], *AT_THE_ROOT, "__version__"}
    imported = {(path.name, name) for path in (PACKAGE / room).glob("*.py") for name in imports(path)}
    assert {(file, name) for file, name in imported if name not in allowed} == set()


def test_what_everybody_uses_imports_no_room() -> None:
    for name in AT_THE_ROOT:
        assert set(imports(PACKAGE / f"{name}.py")) <= set(AT_THE_ROOT)


@pytest.mark.parametrize("room", ROOMS)
def test_the_room_says_what_it_answers(room: str) -> None:
    docstring = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
    assert docstring == f"{ROWS[room][0]}."
