"""`sifmod convert`: several easyconfigs in one call."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from sifmod.cli import cli
from sifmod.errors import EasyconfigError

from ..support import a_runner

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    return lambda *words: a_runner().invoke(cli, ["convert", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of easyconfigs: two of one module, one of another module, and one of no container."""
    text = "easyblock = 'MakeCp'\nname = '{}'\nversion = '1'\nsources = ['{}']\n"
    text += "homepage = 'h'\ndescription = 'd'\ntoolchain = SYSTEM\n"
    made = tmp_path / "easyconfigs"
    made.mkdir()
    for file_name, *values in (("a", "X", "x.sif"), ("b", "X", "y.sif"), ("c", "Y", "y.tar.gz"), ("d", "Z", "z.sif")):
        (made / f"{file_name}.eb").write_text(text.format(*values))
    (tmp_path / "out").mkdir()
    return made


def test_two_of_one_module_are_named_and_the_others_converted(call: Call, folder: Path, tmp_path: Path) -> None:
    paths = sorted(folder.iterdir())
    result = call(*paths, "--output", "out")
    assert result.exit_code == EasyconfigError.exit_code
    assert result.stdout.splitlines() == ["wrote out/X-1.eb", "wrote out/Z-1.eb"]
    assert "'x.sif'" in (tmp_path / "out/X-1.eb").read_text()
    problems = [line for line in result.stderr.splitlines() if not line.startswith("sifmod: " + paths[0].name)]
    assert any(f"'{paths[1]}' has the same module name as '{paths[0]}', X/1" in line for line in problems)
    assert any("'c.eb' has no SIF among its sources" in line for line in problems)
    assert "sifmod: d.eb: not carried over: gpu" in result.stderr


def test_a_dash_is_standard_output_and_one_alone_fails(call: Call, folder: Path, tmp_path: Path) -> None:
    result = call(folder / "a.eb", "--output", "-")
    assert result.exit_code == 0
    assert "\nsources = ['x.sif']\n" in result.stdout
    assert result.stdout == call(folder / "a.eb").stdout
    assert not (tmp_path / "-").exists()
    result = call(folder / "c.eb")
    assert isinstance(result.exception, EasyconfigError)
    assert call(folder / "a.eb").stdout.startswith("# Converted by sifmod ")


def test_programs_get_what_was_converted_and_what_was_not(call: Call, folder: Path) -> None:
    paths = sorted(folder.iterdir())
    result = call(*paths, "--json")
    assert result.exit_code == EasyconfigError.exit_code
    said: dict[str, list[dict[str, Any]]] = json.loads(result.stdout)
    assert [(one["easyconfig"], one["module"], one["written"]) for one in said["converted"]] == [
        (str(paths[0]), "X/1", None),
        (str(paths[3]), "Z/1", None),
    ]
    assert [one["easyconfig"] for one in said["failed"]] == [str(path) for path in paths[1:3]]


def test_a_file_that_exists_does_not_stop_the_others(call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out/X-1.eb").write_text("mine")
    result = call(folder / "a.eb", folder / "d.eb", "--output", "out")
    assert result.exit_code == 1
    assert "--force" in result.stderr
    assert (tmp_path / "out/X-1.eb").read_text() == "mine"
    assert (tmp_path / "out/Z-1.eb").is_file()


@pytest.mark.parametrize("options", [[], ["--output", "one.eb"], ["--output", "one.eb", "--json"]])
def test_several_are_not_written_into_one_file(call: Call, folder: Path, tmp_path: Path, options: list[str]) -> None:
    result = call(folder / "a.eb", folder / "d.eb", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--output DIR" in result.stderr
    assert not (tmp_path / "one.eb").exists()
