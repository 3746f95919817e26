"""The table of easyconfig parameters, and that it is the only one."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from sifmod.container.parameters import (
    BUILD_SETTINGS,
    GROUPS,
    IMAGE_SOURCES,
    INHERITED,
    OF_THE_IMAGE,
    OWN,
    PARAMETERS,
    TAKEN_OVER,
    read_parameters,
)
from sifmod.container.spec import ContainerSpec

ROOT = Path(__file__).parents[3]


def lists_of_parameters(path: Path) -> Iterator[str]:
    """Yield the tuples, lists and sets in a file that name two or more own parameters."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            words = {item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)}
            named = words & set(OWN)
            if len(named) > 1:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {' '.join(sorted(named))}"


def test_no_other_file_lists_parameters() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "easyblocks").glob("*.py"), *(ROOT / "docs").glob("*.py")]
    # the last names keys of a site
    own = {ROOT / "src/sifmod" / name for name in ("container/parameters.py", "render/sitemodule.py")}
    found = [line for path in files if path not in own for line in lists_of_parameters(path)]
    assert found == []


def test_a_list_elsewhere_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "x.py").write_text('A = ("gpu", "mpi")\nB = ("gpu", "other")\n')
    assert [*lists_of_parameters(tmp_path / "x.py")] == ["x.py:1: gpu mpi"]


def test_each_parameter_has_one_place_in_the_text_and_a_meaning() -> None:
    placed = [name for group in GROUPS for name in group]
    assert sorted(placed) == sorted(PARAMETERS)
    for name, one in OWN.items():
        assert one.kind, name
        assert one.kind.title, name
        assert len(one.help_text) > 10, name


def test_what_others_take_over_is_a_parameter_of_the_container() -> None:
    assert {*INHERITED} <= {*OWN}
    # these make a container what it is, so one that builds on it, or is like it, has them too
    assert {"share_container", "user_commands", "binds", "features"} <= {*INHERITED} & {*TAKEN_OVER}
    assert {*IMAGE_SOURCES, *BUILD_SETTINGS} <= {*OF_THE_IMAGE}


def test_each_parameter_arrives_in_the_description_or_says_where_the_image_comes_from() -> None:
    described = {field.name for field in fields(ContainerSpec)}
    python = {"conda_root", "conda_env", "python_prefix"}
    assert {*OWN} - described == {*IMAGE_SOURCES, *BUILD_SETTINGS, "builds_on", *python} - {"sources"}


def test_none_means_the_default() -> None:
    assert (
        read_parameters(dict.fromkeys(OWN)) == {name: one.default for name, one in OWN.items()} == read_parameters({})
    )
