"""`sifmod convert` with recipes and modules of SHPC."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sifmod.cli import cli
from sifmod.errors import RecipeError

from ..support import a_runner

Call = Callable[..., Result]
RECIPES = Path(__file__).parent.parent / "migrate/recipes"
ALIGNER = "quay.io/biocontainers/aligner"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    return lambda *words: a_runner().invoke(cli, [*map(str, words)])


def test_a_recipe_is_printed_or_written(call: Call, tmp_path: Path) -> None:
    path = RECIPES / ALIGNER / "container.yaml"
    result = call("convert", path, "--tag", "1.9")
    assert result.exit_code == 0
    assert "version = '1.9'\nversionsuffix = '--h0_1'\n" in result.stdout
    assert result.stderr.startswith("sifmod: not carried over: no wrapper for cat, bash")
    (tmp_path / "out").mkdir()
    result = call("convert", path, "--output", "out")
    assert result.stdout == "wrote out/aligner-1.10--h5bf99c6_0.eb\n"
    assert (tmp_path / "out/aligner-1.10--h5bf99c6_0.eb").exists()


def installed(folder: Path, sif: str, options: str = "") -> None:
    folder.mkdir(parents=True)
    text = "-- Created by singularity-hpc\nhelp([[\n"
    text += (
        f" - tool:\n       singularity exec {options}<container> /bin/tool \"$@\"\n]])\nlocal containerPath = '{sif}'\n"
    )
    (folder / "module.lua").write_text(text)


def test_an_installed_tree(call: Call, tmp_path: Path) -> None:
    sif = tmp_path / f"my images/{'of-a-long-path/' * 10}tool.sif"
    sif.parent.mkdir(parents=True)
    sif.write_bytes(b"")
    installed(tmp_path / "modules/example/tool/1.0", str(sif))
    result = call("convert", "--installed", "modules", "--output", "out")
    assert (result.exit_code, result.stdout) == (0, "wrote 1 easyconfig to out\n")
    made = (tmp_path / "out/t/tool/tool-1.0.eb").read_text()
    assert "sources = ['tool.sif']\nimage_mode = 'link'\n" in made
    assert f"\n#     eb --sourcepath='{sif.parent}' FILE.eb\n" in made
    again = call("convert", "--installed", "modules", "--output", "out")
    assert "'out' is not empty: choose a new folder" in str(again.exception)


def test_a_module_that_can_not_be_read_or_named_does_not_stop_the_others(call: Call, tmp_path: Path) -> None:
    (tmp_path / "tool.sif").touch()
    for name in ("a/tool", "b/tool", f"example.org/{'x' * 250}", f"example.org/{'/'.join(['x' * 90] * 3)}"):
        installed(tmp_path / "modules" / name / "1.0", str(tmp_path / "tool.sif"))
    installed(tmp_path / "modules/gone/1.0", "/gone.sif")
    (secret := tmp_path / "modules/secret/1.0/module.lua").parent.mkdir(parents=True)
    secret.write_bytes(b"\xff")
    result = call("convert", "--installed", "modules", "--output", "out", "--full-name")
    assert result.exit_code == RecipeError.exit_code
    assert result.stdout.splitlines()[0] == "wrote 2 easyconfigs to out"
    assert result.stderr.count("has more than 200 characters: choose a shorter one") == 2
    assert "its image '/gone.sif' is not there" in result.stderr
    assert "it is not UTF-8" in result.stderr
    said = json.loads(call("convert", "--installed", "modules", "--output", "other", "--json").stdout)
    reasons = [one["reason"] for one in said["failed"]]
    assert (len(said["converted"]), reasons.count("the same name and version as another one")) == (2, 1)


def test_a_recipe_is_found_in_a_checkout(call: Call, tmp_path: Path) -> None:
    words = ("convert", "--shpc", "solver:v1", "--registry", RECIPES)
    result = call(*words, "-o", ".")
    assert result.stdout.splitlines() == ["wrote solver-v1.eb", "install it with: eb solver-v1.eb"]
    assert "solve-all" in (tmp_path / "solver-v1.eb").read_text()
    assert "'solver-v1.eb' exists" in str(call(*words, "-o", ".").exception)
    assert call(*words).stdout == (tmp_path / "solver-v1.eb").read_text()
    (said,) = json.loads(call("convert", "--shpc", "packed", "--registry", RECIPES, "--json").stdout)["converted"]
    assert (said["easyconfig"], said["written"], said["module"]) == ("packed", None, "packed/latest")


@pytest.mark.parametrize(
    "words",
    [
        ["convert"],
        ["convert", "--installed", "."],
        ["convert", "--installed", ".", "x.yaml", "-o", "out"],
        ["convert", "--installed", ".", "--tag", "1", "-o", "out"],
        ["convert", "x.yaml", "y.yaml", "--tag", "1", "-o", "."],
        ["convert", "x.eb", "--full-name"],
        ["convert", "--shpc", "solver"],
        ["convert", "--registry", "."],
        ["convert", "--shpc", "solver", "--registry", ".", "x.eb"],
        ["convert", "--shpc", "solver", "--registry", ".", "--tag", "1"],
    ],
)
def test_wrong_usage(call: Call, words: list[str]) -> None:
    assert call(*words).exit_code == 2
