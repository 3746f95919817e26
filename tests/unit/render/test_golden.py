"""The golden files, and that rendering depends on nothing but its input. `make golden` writes them anew.

Those of modules have the values, and the names of the parts: see `test_parts.py`. There are none of what is installed
as it lies in the repository; `constants.sh` has what is the same in every installation.
"""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import ran

import sifmod.render.module
from sifmod.render.module import render_module
from sifmod.render.templates import render
from sifmod.render.values import more_constants, script_constants
from sifmod.text import tables

from .cases import CASES, GOLDEN, MODULE, ROOT, STATIC, TCL_MODULE, digest, outputs, without_parts

# The values in Tcl are those in Lua: two cases are enough for how they are written.
IN_TCL = ("nvidia-run-nasty", "on-a-base")
# the same in every installation
CONSTANTS = {"runscripts/values.sh": script_constants(), "runscripts/more-values.sh": more_constants()}


def test_what_is_rendered_is_what_the_golden_files_hold(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sifmod.render.module, "__version__", "VERSION")
    rendered = {path: text for path, text in outputs(*CASES[case]).items() if text not in STATIC}
    rendered.update({path: without_parts(rendered[path]) for path in (MODULE, TCL_MODULE)})
    if case not in IN_TCL:
        del rendered[TCL_MODULE]
    for name, values in CONSTANTS.items():
        rendered[name] = rendered[name].replace(tables.bash(values, "sifmod_"), "")
    # of python, python3 and python3.11 the first
    for name in [path for path in rendered if re.fullmatch(r"bin/(python|pip)[0-9.]+", path)]:
        first = name.rstrip("0123456789.")
        if rendered[name].replace(f"# {name[4:]} ", f"# {first[4:]} ") == rendered.get(first):
            del rendered[name]
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


def test_what_is_the_same_in_every_installation() -> None:
    path = GOLDEN / "constants.sh"
    text = "".join(tables.bash(values, "sifmod_") for values in CONSTANTS.values())
    if os.environ.get("SIFMOD_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run `make golden` and look at the differences"


def test_every_golden_file_belongs_to_a_case() -> None:
    folders = {path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name[0] != "."}
    assert folders == {*CASES, "jobs", "sites"}


def test_what_has_no_value_in_it_is_installed_as_it_lies() -> None:
    installed = {**outputs(*CASES["nvidia-run-nasty"]), **outputs(*CASES["enroot-nvidia"])}
    spec, site = CASES["enroot-nvidia"]
    installed.update(outputs(spec, replace(site, gpu_setup="cdi")))
    others = {"runscripts/installer": "runscripts/pip", "runscripts/on-host": "runscripts/sbatch"}
    for path in (ROOT / "wrappers").rglob("*"):
        if path.is_file() and path.suffix != ".j2":
            name = str(path.relative_to(ROOT / "wrappers"))
            assert installed[others.get(name, name)] == path.read_text()


def test_every_template_has_a_place_for_a_value() -> None:
    texts = {path: path.read_text() for path in (ROOT / "wrappers").rglob("*.j2")}
    assert {path.name for path in texts} == {
        *("in-container.j2", "init-conda-venv.j2", "list-packages.j2", "start-shell.j2", "wrapper.j2")
    }
    assert [path for path, text in texts.items() if not re.search(r"\{\{|\{%", text)] == []


def test_the_module_says_which_sifmod_wrote_it() -> None:
    assert f"written by sifmod {sifmod.__version__}:" in render_module(*CASES["usr-python-generic"])


def test_rendering_twice_gives_the_same_bytes(case: str) -> None:
    assert outputs(*CASES[case]) == outputs(*CASES[case])
    assert render(*CASES[case]) == render(*CASES[case])


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_rendering_does_not_depend_on_the_order_of_hashes(seed: str) -> None:
    code = "from unit.render.cases import digest; print(digest())"
    done = ran(
        [sys.executable, "-B", "-c", code],
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": ":".join([str(GOLDEN.parent), *filter(None, sys.path)]),
        },
        check=True,
    )
    assert done.stdout.strip() == digest()


def test_rendering_ignores_the_environment(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = outputs(*CASES[case])
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USER", "TZ", "LANG", "SIFMOD_RUNTIME"):
        monkeypatch.setenv(name, "other")
    assert outputs(*CASES[case]) == before
