"""What the languages' own checkers say of an installation."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ..support import Need
from .cases import CASES, MODULE, TCL_MODULE, write_out


@pytest.fixture
def written(case: str, tmp_path: Path) -> Path:
    """Write a case out as it is installed: in a folder of that nasty name, where its own path is written into it."""
    spec, site = CASES[case]
    top = tmp_path / ("a b,c'd$e" if "nasty" in case else "plain")
    return write_out(replace(spec, installdir=str(top)), site)


def bash_files(top: Path) -> list[Path]:
    return sorted(path for path in top.rglob("*") if path.is_file() and path.suffix not in (".py", ".lua", ".tcl"))


def test_bash_can_read_every_script(written: Path) -> None:
    assert len(bash_files(written)) > 3
    for path in bash_files(written):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path


def test_shellcheck_finds_nothing(written: Path, need: Need) -> None:
    tool = need("shellcheck")
    files = bash_files(written)
    # what init-conda-venv sources lies in the image
    own = [path for path in files if path.name != "init-conda-venv"]
    assert len(own) > 3

    def said(*words: object) -> str:
        command = [tool, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=written)
        return done.stdout + done.stderr

    # a name with a dollar sign in it stands in single quotes, which is what SC2016 asks about
    but = ["-e", "SC2016"] if "$" in str(written) else []
    assert said("-x", "-P", "SCRIPTDIR", "-S", "style", *but, *own) == ""
    for path in set(files) - set(own):
        assert said("-s", "bash", "-e", "SC1091", "-S", "style", path) == ""


def test_lua_can_read_the_module(written: Path, need: Need) -> None:
    done = subprocess.run(
        [need("luac5.3", "luac"), "-p", written / MODULE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_tcl_can_read_the_module(written: Path, need: Need, tmp_path: Path) -> None:
    script = tmp_path / "complete.tcl"
    script.write_text(
        "set file [open [lindex $argv 0]]\nfconfigure $file -encoding utf-8\n"
        "exit [expr {![info complete [read $file]]}]"
    )
    assert subprocess.run([need("tclsh"), script, written / TCL_MODULE], check=False).returncode == 0
