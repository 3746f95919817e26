"""sifmod on the oldest Python that its metadata promises and on a newer one than the testbed's, with the real tools."""

import os
from pathlib import Path

import pytest
from test_versions import run_unit_tests
from tests.programs import ran

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, TESTBED, make_user

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(params=["3.9", "3.13"])
def commands(request: pytest.FixtureRequest) -> Path:
    """The folder of commands of a virtual environment on one Python, with EasyBuild, sifmod and its test tools."""
    folder = TESTBED / f"python{request.param}" / "venv" / "bin"
    if not (folder / "sifmod").exists():
        pytest.fail(f"the testbed has no Python {request.param}: run `testbed/setup --all`", pytrace=False)
    version = ran([folder / "python", "--version"], check=True).stdout
    assert version.startswith(f"Python {request.param}.")
    return folder


def path_with(commands: Path) -> str:
    return f"{commands}:{os.environ['PATH']}"


IMPORT_ALL = """
import importlib, pkgutil, sifmod
for module in pkgutil.walk_packages(sifmod.__path__, "sifmod."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
import easybuild.easyblocks.generic.containerimage
"""


def test_every_module_can_be_imported(commands: Path) -> None:
    done = ran(
        [commands / "python", "-W", "error::SyntaxWarning", "-c", IMPORT_ALL],
        env={**os.environ, "PATH": path_with(commands)},
    )
    assert done.returncode == 0, done.stderr


def test_what_differs_between_pythons_passes_its_unit_tests(commands: Path, tmp_path: Path) -> None:
    """What runs in containers, starts processes, or reads with the standard library what an image or a file says."""
    run_unit_tests(
        commands,
        tmp_path,
        "inside",
        "host",
        "text/test_yaml.py",
        "site/test_settings.py",
        "eb/test_configuration.py",
        "test_cli.py",
    )


def test_the_demo_image_is_installed_used_and_looked_at(commands: Path, tmp_path: Path) -> None:
    user = make_user(tmp_path / "eb", PATH=path_with(commands))
    assert f"-> Python binary: {commands}/python" in user.out("eb --show-system-info")
    user.eb(DEMO_EASYCONFIG)
    inside = user.out(f"module load {DEMO_MODULE}; singularity exec $SIF python -c 'import sys; print(sys.prefix)'")
    assert inside == "/user-software/venv/demo"
    assert DEMO_MODULE in user.out("sifmod list")
    user.run(f"sifmod verify {DEMO_MODULE}")
    assert "Debian GNU/Linux 12" in user.out(f"sifmod inspect {user.installdir(DEMO_MODULE)}/demo.sif")
