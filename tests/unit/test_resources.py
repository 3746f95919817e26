import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import ran

import sifmod
from sifmod import resources
from sifmod.resources import data_path, program

FOLDERS = {
    "wrappers": "share/container.sh",
    "jobs": "sbatch.j2",
    "modulefiles": "container.lua",
    "sites": "generic.toml",
    "advisories": "advisories.toml",
    "catalogue": "index.html.j2",
}


@pytest.mark.parametrize(("folder", "file"), FOLDERS.items())
def test_the_data_files_are_found_where_sifmod_runs_from(folder: str, file: str) -> None:
    assert (data_path(folder) / file).is_file()


def test_programs_are_found_and_missing_ones_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program("probe") == (Path(sifmod.__file__).parent / "inside" / "probe.py").read_text()
    with pytest.raises(FileNotFoundError, match=r"'wrapers' is missing beside .*: reinstall sifmod"):
        data_path("wrapers")
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"inside/probe.py' is missing: reinstall sifmod"):
        program("probe")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy the package without data files, as a wheel puts it into site-packages."""
    target = tmp_path / "lib" / "site-packages" / "sifmod"
    shutil.copytree(Path(sifmod.__file__).parent, target, ignore=shutil.ignore_patterns("__pycache__", "data"))
    return target


def found_by(package: Path) -> subprocess.CompletedProcess[str]:
    code = "from sifmod.resources import data_path; print(data_path('sites'))"
    return ran([sys.executable, "-B", "-c", code], env={"PYTHONPATH": str(package.parent)})


def test_the_data_files_are_in_the_package_or_at_the_top_of_a_checkout(package: Path) -> None:
    done = found_by(package)
    assert done.returncode != 0
    assert "reinstall sifmod" in done.stderr
    (package.parents[1] / "sites").mkdir()
    assert found_by(package).stdout == f"{package.parents[1]}/sites\n"
    (package / "data" / "sites").mkdir(parents=True)
    assert found_by(package).stdout == f"{package}/data/sites\n"
