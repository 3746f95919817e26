"""What a run of the tests says, and what `tests/run` says where containers can't run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import ran, write_file
from tests.sampling import drawn

from .support import Stubs

ROOT = Path(__file__).parents[2]
NO_NAMESPACES = "an ordinary user can make no user namespaces"

CONFTEST = """
from tests.reporting import Reporting

def pytest_configure(config):
    config.pluginmanager.register(Reporting(config))
"""
TESTS = """
import pytest

def test_good(): pass

@pytest.mark.parametrize("word", ["it's"])
def test_bad(word): assert False

@pytest.mark.parametrize("number", [1, 2])
def test_left_out(number): pytest.skip("Apptainer: not found")
"""


def failing_run(top: Path, name: str, tests: str, *options: str, **environ: str) -> list[str]:
    """Run a file of tests, of which some fail, with the report of this project, and return the lines of it."""
    write_file(top / "conftest.py", CONFTEST)
    write_file(top / "tests" / "unit" / name, tests)
    words = [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:cacheprovider", *options]
    done = ran(words, cwd=top, env={**os.environ, "PYTHONPATH": str(ROOT), **environ})
    assert done.returncode == 1
    return done.stdout.splitlines()


def test_the_end_of_a_run_names_what_was_left_out_and_how_to_repeat_a_failure(tmp_path: Path) -> None:
    lines = failing_run(tmp_path, "test_three.py", TESTS, SIFMOD_TESTS_LEFT_OUT="shellcheck: not found: lint")
    assert "Apptainer: not found: 2 unit tests" in lines
    assert "shellcheck: not found: lint" in lines
    assert any(line.startswith("unit: 1 passed, 1 failed, 2 left out; ") for line in lines)
    assert """tests/run 'tests/unit/test_three.py::test_bad[it'"'"'s]'""" in lines


RACES = """
import pathlib

def test_races():
    ran = pathlib.Path(__file__).with_name("ran")
    first = not ran.exists()
    ran.touch()
    assert not first

def test_bad(): assert False
"""


def test_what_passes_only_when_ci_runs_it_again_is_named_and_what_fails_twice_fails(tmp_path: Path) -> None:
    lines = [line.strip("= ") for line in failing_run(tmp_path, "test_two.py", RACES, "--reruns=1")]
    once = lines.index("failed once and passed when run again: a race")
    assert lines[once + 1] == "tests/run tests/unit/test_two.py::test_races"
    assert lines[lines.index("to repeat one alone") + 1] == "tests/run tests/unit/test_two.py::test_bad"
    assert any(line.startswith("unit: 1 passed, 1 failed; ") for line in lines)


def test_what_is_drawn_is_the_same_in_each_worker() -> None:
    assert drawn("a name", range(1000), 3) == drawn("a name", range(1000), 3) != drawn("another", range(1000), 3)
    assert drawn("a name", [1, 2], 3) == [1, 2]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["tests/run", "--demo"], f"run: the demo can't run here, because {NO_NAMESPACES}\n"),
        (["bash", "-c", ". testbed/lib.sh; hindrance >&2"], NO_NAMESPACES),
    ],
)
def test_without_containers_nothing_is_installed(stub: Stubs, tmp_path: Path, command: list[str], says: str) -> None:
    stub("unshare", "exit 1")
    environ = {**os.environ, "SIFMOD_TESTBED": str(tmp_path / "none")}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", says)
    assert not (tmp_path / "none").exists()
