"""What the languages' own checkers say of an installation."""

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Union

import pytest
from tests.programs import ran

from sifmod import names
from sifmod.render.templates import render

from ..support import Need
from .cases import CASES, MODULE, ROOT, STATIC, TCL_MODULE, write_out

WRAPPERS = ROOT / "wrappers"


@pytest.fixture
def written(case: str, tmp_path: Path) -> Path:
    """Write a case out as it is installed: in a folder of that nasty name, where its own path is written into it."""
    spec, site = CASES[case]
    top = tmp_path / ("a b,c'd$e" if "nasty" in case else "plain")
    return write_out(replace(spec, installdir=str(top)), site)


def bash_files(top: Path) -> list[Path]:
    return sorted(
        path for path in top.rglob("*") if path.is_file() and path.suffix not in (".py", ".lua", ".tcl", ".txt")
    )


def test_bash_can_read_every_script(written: Path) -> None:
    assert len(bash_files(written)) > 3
    for path in bash_files(written):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


def shellcheck(need: Need, folder: Path, *words: Union[str, Path]) -> str:
    command = [need("shellcheck"), "-S", "style", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.stdout + done.stderr


# What it knows only of a file that it reads with all that it sources, in five times the time: variables set elsewhere.
ALONE = ("-e", "SC1091,SC2034,SC2154")
WITH_WHAT_IT_SOURCES = ("-x", "-P", "SCRIPTDIR:share")


@pytest.mark.parametrize("how", [ALONE, pytest.param(WITH_WHAT_IT_SOURCES, marks=pytest.mark.slow)], ids=" ".join)
def test_shellcheck_finds_nothing_in_the_scripts_as_they_lie(tmp_path: Path, need: Need, how: tuple[str, ...]) -> None:
    """With the values of a container that has all kinds of them, beside which scripts look for them."""
    shutil.copytree(WRAPPERS, tmp_path, ignore=shutil.ignore_patterns("*.j2"), dirs_exist_ok=True)
    spec, site = CASES["enroot-nvidia"]
    for item in render(replace(spec, venv="demo"), site):
        if item.path.name in (names.VALUES, names.MORE_VALUES):
            (tmp_path / item.path).write_text(item.text, encoding="utf-8")
    files = [path.relative_to(tmp_path) for path in bash_files(tmp_path)]
    assert len(files) > 30
    assert shellcheck(need, tmp_path, *how, *files) == ""


def test_long_command_lines_take_linear_time() -> None:
    """No pattern with two stars is matched against joined arguments; container.sh says what the empty word is for."""
    for path in (*WRAPPERS.rglob("*"), *(WRAPPERS.parent / "jobs").rglob("*")):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert not re.search(r"\[\[[^\n]*\$\{?\*[^\n]*=[^\n]*\*[^\n]*\*", text), path
        assert not re.search(r"(?s)\bcase [^\n]*\$\{?\*(?:(?!\besac\b).)*\n[^\n)]*\*[^|)\n]*\*[^\n]*\)", text), path
        passes_on = re.search(r'(?m)^(exec|launch|start) .*"\$@"|\) exec .*"\$@"', text)
        if text.startswith("#!/bin/bash") and passes_on:
            source = re.search(r"^source .*", text, re.MULTILINE)
            assert not source or source[0].endswith(" ''"), path


def test_no_function_of_a_script_hides_one_of_another() -> None:
    """One process sources many of these files, and a later function of the same name would replace the earlier one."""
    texts = [path.read_text(encoding="utf-8") for path in (WRAPPERS / "share").glob("*.sh")]
    defined = Counter(name for text in texts for name in re.findall(r"^(\w+)\(\)", text, re.MULTILINE))
    assert len(defined) > 100
    assert [name for name, count in defined.items() if count > 1] == []


def test_shellcheck_finds_nothing_in_what_is_rendered(written: Path, need: Need) -> None:
    files = [path for path in bash_files(written) if path.read_text(encoding="utf-8") not in STATIC]
    # a name with a dollar sign in it stands in single quotes, which is what SC2016 asks about
    but = ["-e", "SC2016"] if "$" in str(written) else []
    # what they source was read as it lies, and what init-conda-venv sources lies in the image
    init = written / "runscripts" / "init-conda-venv"
    assert shellcheck(need, written, "-e", "SC1091", *but, *(path for path in files if path != init)) == ""
    if init in files:
        assert shellcheck(need, written, "-s", "bash", "-e", "SC1091", init) == ""


def test_lua_can_read_the_module(written: Path, need: Need) -> None:
    done = ran([need("luac5.3", "luac"), "-p", written / MODULE])
    assert (done.returncode, done.stderr) == (0, "")


def test_tcl_can_read_the_module(written: Path, need: Need, tmp_path: Path) -> None:
    script = tmp_path / "complete.tcl"
    script.write_text(
        "set file [open [lindex $argv 0]]\nfconfigure $file -encoding utf-8\n"
        "exit [expr {![info complete [read $file]]}]"
    )
    assert subprocess.run([need("tclsh"), script, written / TCL_MODULE], check=False).returncode == 0
