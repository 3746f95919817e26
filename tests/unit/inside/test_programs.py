"""The programs that run in containers, as they lie: any Python from 3.6 on runs them."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest
from tests.programs import ran

import sifmod.inside
from sifmod.inside import has_module
from sifmod.resources import program

FILES = sorted(path for path in Path(sifmod.inside.__file__).parent.glob("*.py") if path.name != "__init__.py")
NAMES = [path.stem for path in FILES]
SOURCE = Path(sifmod.__file__).parent

# How each answers when it is started as it is in a container; `venv` is below, `installers` and `locked` elsewhere.
STARTED = {
    "batch": (["http://127.0.0.1:9", "/nowhere", "/nowhere"], 2),
    "compilers": ([], 0),
    "consistency": (["/nowhere"], 0),
    "has_module": (["json"], 0),
    "imports": (["1", "json"], 0),
    "plain_files": (["/nowhere"], 0),
    "mpi_check": (["--help"], 0),
    "merge": (["/nowhere"], 0),
    "probe": ([], 0),
    "resolve": ([], 0),
    "trees": (["packages", "/nowhere"], 0),
}


def start(python: str | Path, name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Start a program on standard input, as sifmod does, or from its file if it uses another one beside it."""
    where = next(path for path in FILES if path.stem == name) if name == "merge" else "-"
    command = [python, "-I", where, *words]
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }  # consistency names what it hides
    return ran(command, input=program(name), env=environ, errors="replace")


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_it_is_python_3_6(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    for node in ast.walk(tree):
        # the parser lets these pass
        assert not isinstance(node, ast.NamedExpr)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert "__future__" not in names
            assert not any(name.partition(".")[0] in ("sifmod", "packaging") for name in names)
        if isinstance(node, ast.arg) and node.annotation:
            # what stands there is evaluated: list[str] needs Python 3.9
            assert isinstance(node.annotation, (ast.Name, ast.Attribute, ast.Constant)), ast.dump(node)


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.13"])
@pytest.mark.parametrize("name", STARTED)
def test_it_runs_in_old_and_new_pythons(name: str, version: str) -> None:
    python = shutil.which(f"python{version}")
    if not python or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    words, status = STARTED[name]
    done = start(python, name, *words)
    said = "serve: '/nowhere' can't be read: No such file or directory\n" if name == "batch" else ""
    assert (done.returncode, done.stderr) == (status, said)


def test_every_program_is_one_of_these() -> None:
    assert set(NAMES) == {*STARTED, "installers", "installing", "locked", "venv"}


def test_no_other_module_has_a_program_in_a_string() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and path.parent.name != "inside":
                lines = [line.strip() for line in node.value.splitlines()]
                assert not any(
                    line.startswith(("import ", "from ")) and line.isascii() and is_code(line) for line in lines
                ), path


def is_code(line: str) -> bool:
    try:
        return bool(ast.parse(line).body)
    except SyntaxError:
        return False


def test_the_probe_answers_for_the_python_that_runs_it() -> None:
    answer = json.loads(start(sys.executable, "probe").stdout)
    assert answer["version"] == "{}.{}".format(*sys.version_info[:2])
    assert answer["prefix"] == sys.prefix
    assert ["hypothesis", installed_version("hypothesis")] in answer["packages"]
    assert start(sys.executable, "has_module", "json").returncode == 0
    assert start(sys.executable, "has_module", "no_such_module").returncode == has_module.MISSING


def test_what_an_import_opens_is_written_once_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import two, json\n")
    (tmp_path / "two.py").write_text("open(__file__[:-3] + '.dat').close()\n")
    (tmp_path / "two.dat").touch()
    done = ran(
        [sys.executable, "-B", "-", "1", "one"], input=program("imports"), env={"PYTHONPATH": str(tmp_path)}, check=True
    )
    names = done.stdout.split("\0")[:-1]
    opened = [Path(name).name for name in names if name.startswith(f"{tmp_path}/") and "__pycache__" not in name]
    assert opened == ["one.py", "two.py", "two.dat"]
    assert len(names) == len(set(names))
    assert any("/libc.so" in name or "/libc-2." in name for name in names)  # glibc before 2.34 has its version there


@pytest.fixture
def base() -> Path:
    """Return the Python below this one: `venv` itself makes environments of virtual environments differently."""
    base = Path(sys.base_prefix, "bin", "python3")
    assert base.exists()
    return base


def test_a_virtual_environment_sees_the_image_s_packages_and_pip(base: Path, tmp_path: Path) -> None:
    target = tmp_path / "it's" / "demo"
    target.parent.mkdir()
    done = start(base, "venv", target)
    assert done.returncode == 0, done.stderr
    assert "include-system-site-packages = true" in (target / "pyvenv.cfg").read_text()
    assert (target / "bin" / "pip").exists()
    target = tmp_path / "demo"
    done = start(base, "venv", target)
    assert done.returncode == 0, done.stderr
    if list(target.glob("lib/*/site-packages/pip")):
        pytest.skip(f"{base} has no pip to lend")
    assert (target / "bin" / "pip").read_text().startswith(f"#!{target}/bin/python\n")
    assert os.access(target / "bin" / "pip3", os.X_OK)


def test_where_the_image_s_python_is_a_virtual_environment_its_packages_are_seen(tmp_path: Path) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("this Python is no virtual environment")
    target = tmp_path / "demo"
    done = start(sys.executable, "venv", target)
    assert done.returncode == 0, done.stderr
    inner = ran([target / "bin" / "python", "-I", "-c", "import hypothesis; print(hypothesis.__version__)"], check=True)
    assert inner.stdout.strip() == installed_version("hypothesis")
