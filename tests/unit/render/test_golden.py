"""The golden files, and that rendering depends on nothing but its input. `make golden` writes them anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sifmod.render.templates
from sifmod.render.templates import render, render_module

from .cases import CASES, GOLDEN, PLAIN, ROOT, digest, outputs


def test_what_is_rendered_is_what_the_golden_files_hold(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sifmod.render.templates, "__version__", "VERSION")
    rendered = {path: text for path, text in outputs(*CASES[case]).items() if path not in PLAIN}
    folder = GOLDEN / case
    if os.environ.get("SIFMOD_UPDATE_GOLDEN"):
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            path.unlink()
        for name, text in rendered.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    stored = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert sorted(rendered) == sorted(stored), "run `make golden` and look at the differences"
    for name, text in rendered.items():
        assert text == (folder / name).read_text(encoding="utf-8"), f"{case}/{name}: run `make golden` and look"


def test_every_golden_file_belongs_to_a_case() -> None:
    folders = {path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name[0] != "."}
    assert folders == {*CASES, "jobs", "sites"}


def test_what_has_no_value_in_it_is_installed_as_it_lies() -> None:
    installed = {**outputs(*CASES["nvidia-run-nasty"]), **outputs(*CASES["enroot-nvidia"])}
    assert {path: (ROOT / file).read_text() for path, file in PLAIN.items()}.items() <= installed.items()


def test_every_template_has_a_place_for_a_value() -> None:
    texts = {path: path.read_text() for folder in ("wrappers", "modulefiles") for path in (ROOT / folder).rglob("*.j2")}
    assert len(texts) > 10
    assert [path for path, text in texts.items() if not re.search(r"\{\{|\{%", text)] == []


def test_the_module_says_which_sifmod_wrote_it() -> None:
    assert f"written by sifmod {sifmod.__version__}." in render_module(*CASES["usr-python-generic"])


def test_rendering_twice_gives_the_same_bytes(case: str) -> None:
    assert outputs(*CASES[case]) == outputs(*CASES[case])
    assert render(*CASES[case]) == render(*CASES[case])


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_rendering_does_not_depend_on_the_order_of_hashes(seed: str) -> None:
    code = "from unit.render.cases import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": ":".join([str(GOLDEN.parent), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest()


def test_rendering_does_not_depend_on_the_environment(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = outputs(*CASES[case])
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USER", "TZ", "LANG", "SIFMOD_RUNTIME"):
        monkeypatch.setenv(name, "other")
    assert outputs(*CASES[case]) == before
