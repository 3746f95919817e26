"""sifmod on the oldest Python that its metadata promises and on a newer one than the testbed's, with the real tools."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, ROOT, TESTBED, make_user

pytestmark = pytest.mark.slow


@pytest.fixture(params=["3.9", "3.13"])
def commands(request: pytest.FixtureRequest) -> Path:
    """The folder of commands of a virtual environment on one Python, with EasyBuild, sifmod and its test tools."""
    folder = TESTBED / f"python{request.param}" / "venv" / "bin"
    if not (folder / "sifmod").exists():
        pytest.fail(f"the testbed has no Python {request.param}: run `testbed/setup --all`", pytrace=False)
    version = subprocess.run([folder / "python", "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith(f"Python {request.param}.")
    return folder


def path_with(commands: Path) -> str:
    return f"{commands}:{os.environ['PATH']}"


@pytest.mark.timeout(1800)  # the whole suite, on a machine that runs another test beside it
def test_the_unit_tests_pass(commands: Path, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PATH"] = path_with(commands)
    pytest_of: list[str | Path] = [
        commands / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        tmp_path / "unit",
        # what linters say of shell scripts is the same for each Python
        "-k",
        "not shellcheck",
    ]
    done = subprocess.run(
        [*pytest_of, "tests/unit"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_image_is_installed_used_and_looked_at(commands: Path, tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb", PATH=path_with(commands))
    assert f"-> Python binary: {commands}/python" in user.out("eb --show-system-info")
    user.eb(DEMO_EASYCONFIG)
    inside = user.out(f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'import sys; print(sys.prefix)'")
    assert inside == "/user-software/venv/demo"
    assert DEMO_MODULE in user.out("sifmod list")
    user.run(f"sifmod verify {DEMO_MODULE}")
    assert "Debian GNU/Linux 12" in user.out(f"sifmod inspect {user.installdir(DEMO_MODULE)}/demo.sif")
