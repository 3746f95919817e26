"""The wheel and the sdist: what is in them, and where it lies."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.version import Version
from tests.lacking import lacking
from tests.programs import write_program

import sifmod

ROOT = Path(__file__).resolve().parents[2]
INFO = f"sifmod-{sifmod.__version__}.dist-info"
BESIDE = "easybuild/easyblocks/generic/containerimage.py"

# folder of the checkout -> where a wheel has it
FOLDERS = {
    "src/sifmod": "sifmod",
    "docs/explanation": "sifmod/data/docs/explanation",
    "docs/howto": "sifmod/data/docs/howto",
    "docs/reference": "sifmod/data/docs/reference",
    "easyconfigs": "easybuild/easyconfigs",
    "jobs": "sifmod/data/jobs",
    "modulefiles": "sifmod/data/modulefiles",
    "sites": "sifmod/data/sites",
    "advisories": "sifmod/data/advisories",
    "catalogue": "sifmod/data/catalogue",
    "wrappers": "sifmod/data/wrappers",
}


def build(project: Path, target: str, folder: Path) -> Path:
    """Build a wheel or an sdist, without pip and without a network."""
    if importlib.util.find_spec("hatchling") is None:
        lacking("hatchling is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())


def test_the_wheel_has_what_sifmod_needs_and_nothing_else(wheel: Path) -> None:
    expected = {BESIDE, *(f"sifmod/data/docs/{name}.md" for name in ("operate", "tutorial"))}
    for folder, target in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                expected.add(f"{target}/{path.relative_to(ROOT / folder)}")
    found = {name for name in names_in(wheel) if not name.startswith(f"{INFO}/")}
    assert found == expected
    assert {"sifmod/py.typed", "sifmod/launcher.sh", "sifmod/inside/__init__.py"} <= found


def test_the_wheel_is_small_and_leaves_to_easybuild_what_is_easybuild_s(wheel: Path) -> None:
    assert wheel.stat().st_size < 1_100_000
    names = {Path(name) for name in names_in(wheel)}
    assert not [name for name in names if {"tests", "golden", "testbed", "pictures"} & set(name.parts)]
    assert not [name for name in names if name.suffix in {".sif", ".squashfs", ".sqlite", ".png", ".gz"}]
    # a file of ours in `PREFIX/easybuild/easyconfigs` is hidden by the index of easybuild-easyconfigs
    found = names_in(wheel)
    assert not [name for name in found if ".data/" in name]
    assert not [name for name in found if name.startswith("easybuild/") and name.endswith("__init__.py")]
    assert not [name for name in found if name.endswith(".eb-path-index")]


def test_the_metadata_name_the_version_and_every_python(metadata: Message) -> None:
    assert metadata["Version"] == sifmod.__version__
    classifiers = metadata.get_all("Classifier") or []
    assert metadata["Requires-Python"] == ">=3.9"
    named = [one.rpartition(" ")[2] for one in classifiers if one.startswith("Programming Language :: Python :: 3.")]
    assert named == ["3.9", "3.10", "3.11", "3.12", "3.13"]
    assert "Typing :: Typed" in classifiers
    assert metadata.get_all("Project-URL")


def test_the_newest_release_of_the_changelog_is_the_version_that_is_cited() -> None:
    headings = re.findall(r"^## \[(.+?)\](?: - (.+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["license"] == "GPL-2.0-only"
    assert headings[:2] == [("Unreleased", ""), (cited["version"], str(cited["date-released"]))]


def test_the_version_is_the_release_or_one_in_development_after_it() -> None:
    """Two installations of different sifmods must not both say that a release made them."""
    text = (ROOT / "CHANGELOG.md").read_text().partition("## [Unreleased]")[2]
    unreleased = text.partition("\n## [")[0].strip()
    released = Version(yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"])
    version = Version(sifmod.__version__)
    assert (version.is_devrelease and version > released) if unreleased else version == released


def test_a_wheel_made_from_the_sdist_is_the_same(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path)
    (unpacked,) = tmp_path.iterdir()
    (tmp_path / "built").mkdir()
    assert names_in(build(unpacked, "wheel", tmp_path / "built")) == names_in(wheel)


def test_the_sdist_has_tests_and_documentation_and_no_litter(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert {Path("tests/unit/test_packaging.py"), Path("docs/tutorial.md"), Path("testbed/setup")} <= names
    assert {Path("CHANGELOG.md"), Path("LICENSE"), Path("Makefile"), Path("README.md")} <= names
    assert not [name for name in names if {".git", ".ci", "__pycache__", "build", "dist"} & set(name.parts)]


# The command of sifmod's module


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """Return `bin/sifmod` of an installation whose library prints what it was started with."""
    (tmp_path / "own" / "bin").mkdir(parents=True)
    (tmp_path / "own" / "python").mkdir()
    command = tmp_path / "own" / "bin" / "sifmod"
    command.write_bytes((ROOT / "src" / "sifmod" / "launcher.sh").read_bytes())
    command.chmod(0o755)
    program = "import sys\nprint(sys.executable, sys.path[0], *sys.argv[1:], sep='|')\n"
    (tmp_path / "own" / "python" / "__main__.py").write_text(program)
    (tmp_path / "own" / "python" / "interpreter").write_text(f"{sys.executable}\n")
    return command


def started(command: Path, **environ: str) -> list[str]:
    done = subprocess.run([command, "a b", "$c"], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n").split("|")


def test_the_launcher_takes_the_python_of_its_install_and_its_own_library(launcher: Path, tmp_path: Path) -> None:
    other = write_program(tmp_path / "python3", "#!/bin/sh\necho 'of a container'\n")
    path = f"{tmp_path}:/usr/bin:/bin"
    assert started(launcher, PATH=path) == [sys.executable, str(launcher.parents[1] / "python"), "a b", "$c"]
    assert started(launcher, PATH=path, EB_PYTHON=str(other)) == ["of a container"]


def test_the_launcher_works_through_a_link_and_when_its_python_is_gone(launcher: Path, tmp_path: Path) -> None:
    (launcher.parents[1] / "python" / "interpreter").write_text("/gone/python3\n")
    (tmp_path / "sifmod").symlink_to(launcher)
    (tmp_path / "python3").symlink_to(sys.executable)
    found = started(tmp_path / "sifmod", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert found[1:] == [str(launcher.parents[1] / "python"), "a b", "$c"]


def test_python_m_sifmod_is_the_command() -> None:
    command = [sys.executable, "-m", "sifmod", "--version"]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True)
    assert done.stdout == f"sifmod, version {sifmod.__version__}\n"
