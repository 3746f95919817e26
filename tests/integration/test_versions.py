"""sifmod with the oldest versions of its dependencies that pyproject.toml allows, and with the newest."""

import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tests.programs import ran

from conftest import ROOT, TESTBED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

# The tests of the modules that import a dependency, or that import what needs it; of EasyBuild those that ask it. What
# only uses such a module can't tell one version from another.
EASYBUILD = (
    *("eb/test_configuration.py", "eb/test_easyblock.py", "eb/test_progress.py", "eb/test_robot.py"),
    *("easyconfig/test_text.py", "test_easyconfigs.py"),
)
# EasyBuild's display is one of rich only there
BARS = "eb/test_progress.py::test_on_a_terminal_the_work_is_one_of_easybuild_s_bars"
TEMPLATES = ("catalogue/test_pages.py", "render/test_golden.py", "render/test_job.py")
USED_BY: dict[str, tuple[str, ...]] = {
    "click": ("commands/test_output.py", "commands/test_progress.py", "test_cli.py"),
    "easybuild-easyblocks": EASYBUILD,
    "easybuild-framework": EASYBUILD,
    "jinja2": TEMPLATES,
    "markdown-it-py": ("catalogue/test_pages.py",),
    "markupsafe": TEMPLATES,
    "mdurl": ("catalogue/test_pages.py",),
    "packaging": (
        *("environment", "advice", "site/test_advisories.py", "text/test_version.py", "wheels/test_building.py"),
        "image/test_python.py",
        *("install/test_mpi.py", "install/test_probe.py", "installed/test_consistency.py"),
    ),
    "pyelftools": ("image/test_fatbin.py", "image/test_mpi.py"),
    "pygments": ("commands/test_output.py", BARS),
    "pysquashfsimage": ("image/test_squashfs.py", "image/test_inspection.py"),
    "pyyaml": ("text/test_yaml.py", "environment/test_conda.py"),
    "rich": ("commands/test_output.py", "commands/test_progress.py", "commands/test_terminal.py", BARS),
    "tomli": ("environment", "install/test_uv.py", "site/test_settings.py"),
    "tomli-w": ("environment", "install/test_hostmpi.py"),
}
# The room whose libraries only the extra of its name asks for.
NEEDS_AN_EXTRA = "environment"


def run_unit_tests(commands: Path, tmp_path: Path, *paths: str) -> None:
    """Run the quick unit tests of some rooms with another Python or other packages."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ.update(PATH=f"{commands}:{os.environ['PATH']}", PYTHONPATH=str(ROOT / "src"))
    pytest_of: list[str | Path] = [
        commands / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        tmp_path / "unit",
    ]
    tests = [f"tests/unit/{path}" for path in paths]
    done = ran([*pytest_of, "-m", "not slow", *tests], cwd=ROOT, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr


def uv(*words: object, cwd: Path) -> None:
    """Run uv with the indexes that pip is told to use, which are equals for pip."""
    indexes = (
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
        ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
    )
    found = {theirs: os.environ[ours] for ours, theirs in indexes if os.environ.get(ours)}
    done = ran(
        ["uv", "--quiet", *map(str, words)],
        env={**os.environ, **found, "UV_INDEX_STRATEGY": "unsafe-best-match"},
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr


def resolved(resolution: str, target: Path, *options: str) -> dict[str, str]:
    """Resolve what pyproject.toml asks for into a file, and return its versions."""
    uv(
        *("pip", "compile", "--resolution", resolution, *options, ROOT / "pyproject.toml"),
        *("--python", sys.executable, "--no-annotate", "--output-file", target),
        cwd=target.parent,
    )
    lines = (line.partition(";")[0].strip() for line in target.read_text().splitlines())
    return dict(line.split("==") for line in lines if "==" in line)


@pytest.mark.parametrize("extra", ["", "environment"])
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_unit_tests_of_what_uses_other_packages_pass(tmp_path: Path, resolution: str, extra: str) -> None:
    """Those of what uses a package of which this Python has another version, and needs this extra or none."""
    extras = ("--extra", extra) if extra else ()
    found = resolved(resolution, tmp_path / "needed.txt", *extras)
    other = [name for name, version in found.items() if metadata.version(name) != version]
    paths = {path for name in other for path in USED_BY[name] if path.startswith(NEEDS_AN_EXTRA) == bool(extra)}
    if not paths:
        return
    versions, venv = tmp_path / "versions.txt", tmp_path / "venv"
    assert resolved(resolution, versions, "--extra", "test", *extras).items() >= found.items()
    uv("venv", "--python", sys.executable, venv, cwd=tmp_path)
    uv("pip", "install", "--python", venv / "bin/python", "--requirements", versions, cwd=tmp_path)
    run_unit_tests(venv / "bin", tmp_path, *sorted(paths))


def of_distribution(name: str) -> dict[str, str]:
    """Return the versions that the table of SUPPORT.md says a distribution has, as far as sifmod takes them."""
    rows = [re.split(r" *\| *", line.strip("| ")) for line in (ROOT / "SUPPORT.md").read_text().splitlines()]
    (column,) = (row.index(name) for row in rows if row[0] == "library")
    found = ((row[0].lower(), row[column]) for row in rows if row[0].lower() in USED_BY and len(row) > column)
    return {library: version for library, version in found if re.fullmatch(r"[\d.]+", version)}


@pytest.mark.parametrize(("name", "python"), [("Debian 12", "3.11"), ("Debian 13", "3.13")])
def test_the_unit_tests_pass_with_the_libraries_of_a_distribution(tmp_path: Path, name: str, python: str) -> None:
    versions = of_distribution(name)
    assert len(versions) > 6
    own = f"{sys.version_info[0]}.{sys.version_info[1]}" == python
    interpreter = Path(sys.executable) if own else TESTBED / f"python{python}/venv/bin/python"
    held, venv = tmp_path / "held.txt", tmp_path / "venv"
    held.write_text("".join(f"{library}=={version}\n" for library, version in versions.items()))
    uv("venv", "--python", interpreter, venv, cwd=tmp_path)
    made = ("--python", venv / "bin/python", "--constraints", held)
    uv("pip", "install", *made, "--requirements", ROOT / "pyproject.toml", "--extra", "test", cwd=tmp_path)
    paths = {path for library in versions for path in USED_BY[library] if not path.startswith(NEEDS_AN_EXTRA)}
    run_unit_tests(venv / "bin", tmp_path, *sorted(paths))
