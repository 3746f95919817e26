"""Which kind of file of packages a file is."""

from pathlib import Path

import pytest

from sifmod.environment.conda import CondaSource
from sifmod.environment.packagefile import Kind, kind_of, read_packages
from sifmod.environment.python import Source
from sifmod.errors import SifmodError

PROJECT = "[project]\nname = 'x'\ndependencies = ['numpy']\n"
LIST = f"# from conda\n@EXPLICIT\nhttps://c.example.org/noarch/x-1-0.conda#{'0' * 32}\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("requirements.txt", "numpy\n", Kind.REQUIREMENTS),
        ("dev.in", "numpy\n", Kind.REQUIREMENTS),
        ("requirements", "numpy\n", Kind.REQUIREMENTS),
        ("pylock.toml", "lock-version = '1.0'\n", Kind.LOCK),
        ("pylock.dev.toml", "", Kind.LOCK),
        ("my-lock.toml", "lock-version = '1.0'\n", Kind.LOCK),
        ("pyproject.toml", PROJECT, Kind.PROJECT),
        ("environment.yml", "dependencies: [python]\n", Kind.CONDA),
        ("env.YAML", "dependencies: [python]\n", Kind.CONDA),
        ("conda-linux-64.lock", LIST, Kind.CONDA),
        ("explicit.txt", LIST, Kind.CONDA),
        ("uv.lock", "version = 1", Kind.LOCK),
    ],
)
def test_the_kind_follows_from_name_and_content(tmp_path: Path, name: str, text: str, kind: Kind) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert kind_of(path) is kind
    assert isinstance(read_packages(path, kind), CondaSource if kind is Kind.CONDA else Source)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("setup.py", b"import setuptools\n", "none of the files of packages"),
        ("Pipfile", b"[packages]\n", "none of the files of packages"),
        ("pixi.lock", b"", "write a file with 'pixi "),
        ("pdm.lock", b"", "write a file with 'pdm export "),
        ("poetry.lock", b"", "'poetry self add poetry-plugin-export' and 'poetry export "),
        ("x.toml", b"= 1\n", "is not TOML"),
        ("image.sif", b"SIF\xff", "is not UTF-8 text"),
    ],
)
def test_another_file_is_refused_with_a_way_on(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SifmodError, match=said):
        kind_of(path)
