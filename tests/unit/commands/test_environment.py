"""`sifmod environment`: files, and refusals before anything is run."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sifmod.cli import cli
from sifmod.errors import RuntimeMissingError, SifmodError

from ..support import a_runner

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "environment.yml").write_text("dependencies: [python]\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\ndependencies = ['numpy']\n")
    (tmp_path / "Pipfile").write_text("[packages]\nnumpy = '*'\n")
    (tmp_path / "other.yml").write_text("packages: [numpy]\n")
    return lambda *words: a_runner().invoke(cli, ["environment", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Missing argument 'FILE'"),
        ("requirements.txt", "Missing option '--base'"),
        (
            "requirements.txt --extra x --base x.sif",
            "a pyproject.toml, and 'requirements.txt' is a requirements file",
        ),
        ("environment.yml --group x --base x.sif", "'environment.yml' is a conda environment"),
        ("requirements.txt --base x.sif -o -", "name a folder with --output"),
        ("environment.yml --on-top --base x.sif", "leave out --on-top"),
        ("other.yml --base x.sif", "neither an environment.yml"),
        ("Pipfile --base x.sif", "none of the files of packages"),
        ("gone.txt --base x.sif", "'gone.txt' does not exist"),
        ("requirements.txt --base x.sif --name ../x", "easyconfig parameter 'name'"),
    ],
)
def test_what_can_not_be_used_is_refused(call: Call, tmp_path: Path, words: str, said: str) -> None:
    before = sorted(tmp_path.iterdir())
    result = call(*words.split())
    assert result.exit_code == 2 or isinstance(result.exception, SifmodError)
    assert said in f"{result.stderr}{result.exception}"
    assert sorted(tmp_path.iterdir()) == before


def test_an_earlier_one_is_refused(call: Call, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(tmp_path.iterdir())
    existing = tmp_path / "environment-1.0-python-3.11-singularity-20231114.eb"
    existing.write_text("mine")
    result = call("requirements.txt", "--base", image)
    assert isinstance(result.exception, SifmodError)
    assert "exists: choose another name" in str(result.exception)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = call("requirements.txt", "--base", image, "--name", "lab")
    assert isinstance(result.exception, RuntimeMissingError)
    assert sorted(tmp_path.iterdir()) == sorted([*before, existing])


def test_without_the_libraries_of_its_extra_it_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sifmod.commands.environment._IS_MISSING", "No module named 'packaging.pylock'")
    result = a_runner().invoke(cli, ["environment", __file__, "--base", "x.sif"])
    assert result.exit_code == 1
    assert "pip install 'sifmod[environment]'" in str(result.exception)
