"""Wheels from source for a module whose image has no compiler, no header and no git."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.programs import write_file

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, IMAGES, LUMI_MODULE, TESTBED, User, make_user

# The files of small sources, by name: each makes a module whose `answer()` is 42.
_PROJECT = """[build-system]
requires = [{}]
build-backend = 'setuptools.build_meta'
[project]
name = '{}'
version = '1.0'
"""
_C = """#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "NAME", NULL, -1, methods};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&module); }
"""
_SETUP = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('NAME', ['NAME.c'])])\n"
_CYTHON = """from Cython.Build import cythonize
from setuptools import setup
setup(ext_modules=cythonize(['from_cython.pyx']))
"""
_PYBIND = (
    "from pybind11.setup_helpers import Pybind11Extension\nfrom setuptools import setup\n"
    "setup(ext_modules=[Pybind11Extension('from_pybind', ['from_pybind.cpp'])])\n"
)
# What a source sees and can write while it is built.
_SPY = """import os
from setuptools import setup
seen = (os.path.exists({secret!r}), 'MARK_OF_TESTS' in os.environ, os.access('/user-software', os.W_OK))
with open('spy.py', 'w') as stream:
    stream.write(f'SEEN = {{seen}}')
setup(py_modules=['spy'])
"""
SOURCES = {
    "from-c": (
        ("setuptools",),
        {"setup.py": _SETUP.replace("NAME", "from_c"), "from_c.c": _C.replace("NAME", "from_c")},
    ),
    "from-git": (
        ("setuptools",),
        {"setup.py": _SETUP.replace("NAME", "from_git"), "from_git.c": _C.replace("NAME", "from_git")},
    ),
    "from-cython": (
        ("setuptools", "Cython"),
        {"setup.py": _CYTHON, "from_cython.pyx": "def answer():\n    cdef int number = 42\n    return number\n"},
    ),
    "from-pybind": (
        ("setuptools", "pybind11"),
        {
            "setup.py": _PYBIND,
            "from_pybind.cpp": "#include <pybind11/pybind11.h>\n"
            'PYBIND11_MODULE(from_pybind, module) { module.def("answer", [] { return 42; }); }\n',
        },
    ),
}


@dataclass(frozen=True)
class Case:
    """The demo container of a user who has a home of their own, and the sources in it."""

    user: User
    home: Path

    @property
    def wheels(self) -> Path:
        return self.home / ".local/share/sifmod/wheels" / DEMO_MODULE

    def run(self, command: str, *, status: int = 0) -> str:
        done = self.user.run(f"module load {DEMO_MODULE}; {command}", status=status, cwd=self.home, timeout=900)
        return done.stdout + done.stderr


def make_source(folder: Path, name: str) -> Path:
    requires, files = SOURCES[name]
    source = folder / name
    write_file(source / "pyproject.toml", _PROJECT.format(", ".join(map(repr, requires)), name))
    for file, text in files.items():
        (source / file).write_text(text)
    return source


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    folder = tmp_path_factory.mktemp("wheels")
    home = folder / "home"
    home.mkdir(mode=0o700)
    # the site's file binds what this machine's pip is set to use
    user = make_user(folder / "eb", HOME=str(home), APPTAINER_HOME=str(home), SIFMOD_SITE=str(TESTBED / "site.toml"))
    user.env["MARK_OF_TESTS"] = "yes"
    user.eb(DEMO_EASYCONFIG)
    for name in SOURCES:
        make_source(home, name)
    work = home / "from-git"
    git = "git -c user.name=me -c user.email=me@example.org -C"
    for command in (
        f"{git} {work} init -q",
        f"{git} {work} add .",
        f"{git} {work} commit -qm first",
        f"{git} {work} tag v1",
    ):
        subprocess.run(shlex.split(command), check=True)
    (work / "pyproject.toml").write_text("not what the tag has")
    subprocess.run(shlex.split(f"{git} {work} commit -qam second"), check=True)
    subprocess.run(["git", "clone", "-q", "--bare", work, home / "from-git.git"], check=True)
    shutil.rmtree(work)
    (home / "secret").write_text("secret")
    spy = home / "spy"
    write_file(spy / "setup.py", _SPY.format(secret=str(home / "secret")))
    (spy / "pyproject.toml").write_text(_PROJECT.format("'setuptools'", "spy"))
    yield Case(user, home)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def built(case: Case) -> str:
    """What is printed while wheels are built for the first time, and the tools are fetched."""
    return case.run("sifmod build-wheel ./from-c ./spy")


def test_pip_names_the_verb_where_the_container_lacks_a_compiler_or_git(case: Case) -> None:
    way = "type on the host: sifmod build-wheel {} --module " + DEMO_MODULE
    said = case.run("pip install ./from-c", status=1)
    assert "pip: this container lacks a compiler" in said
    assert way.format("./from-c") in said
    said = case.run("cd from-c; pip install -e '.[x]'", status=1)
    assert f"(without -e it is a copy of the source: build it again after a change), {way.format('.')}\n" in said
    # on a terminal, too, with the status of uv
    for start in ("uv pip install ./from-c", "script -qec 'uv pip install ./from-c' /dev/null"):
        said = case.run(start, status=1)
        assert "uv: this container lacks a compiler" in said
        assert way.format("./from-c") in said
    address = f"git+file://{case.home}/from-git.git@v1"
    said = case.run(f"pip install {address}", status=1)
    assert "pip: this container lacks git" in said
    assert way.format(address) in said
    # another failure is pip's alone
    assert "build-wheel" not in case.run("pip install --no-index no-such-package", status=1)


@pytest.mark.slow
def test_wheels_are_built_with_the_distribution_s_compilers_and_found_by_pip_and_uv(case: Case, built: str) -> None:
    assert "lacks a C compiler" in built
    case.run(f"sifmod build-wheel ./from-cython ./from-pybind git+file://{case.home}/from-git.git@v1")
    assert {path.name.split("-")[0] for path in case.wheels.iterdir()} == {
        *("from_c", "from_cython", "from_git", "from_pybind", "spy")
    }
    case.run("pip install from-c==1.0 from-cython from-pybind")
    case.run("uv pip install from-git==1.0 spy")
    names = ("from_c", "from_cython", "from_pybind", "from_git")
    answers = case.run(
        f"python -c 'import {', '.join(names)}; print({', '.join(f'{name}.answer()' for name in names)})'"
    )
    assert answers == "42 42 42 42\n"
    # pip keeps a version that is installed, so that the edited source needs another command
    assert "--force-reinstall" not in built
    source = case.home / "from-c" / "from_c.c"
    source.write_text(source.read_text().replace("42", "43"))
    said = case.run("sifmod build-wheel ./from-c")
    way = said.rstrip("\n").partition("with the same version. To replace it: ")[2]
    assert way == "pip install --force-reinstall --no-deps from-c==1.0"
    case.run(way)
    assert case.run("python -c 'import from_c; print(from_c.answer())'") == "43\n"
    # the image itself has got nothing
    assert case.run("in-container sh -c 'command -v gcc git || echo none'") == "none\n"


def test_a_source_sees_nothing_of_the_user_and_can_not_write_to_user_software(case: Case, built: str) -> None:
    assert built
    case.run("pip install spy")
    assert case.run("python -c 'import spy; print(spy.SEEN)'") == "(False, False, False)\n"


def test_a_folder_that_others_may_write_to_is_refused(case: Case, built: str) -> None:
    assert built
    case.wheels.chmod(0o777)
    try:
        said = case.run("sifmod build-wheel ./from-c", status=7)
        assert f"'{case.wheels}' can't be used: '{case.wheels}' can be written to by others" in said
        said = case.run("pip download --no-index --no-deps from-c", status=1)
        assert "the wheels that you have built are left out" in said
    finally:
        case.wheels.chmod(0o700)
    # that of a team: who else may write there is said, and pip finds it where it is named
    team = case.home / "team"
    team.mkdir()
    team.chmod(0o775)
    case.home.chmod(0o755)
    said = case.run(f"sifmod build-wheel ./from-c --output {team}")
    assert f"pip install --find-links {team} from-c==1.0" in said
    case.run(f"pip download -q --no-index --no-deps --find-links {team} from-c -d {case.home}/down")
    team.chmod(0o777)
    said = case.run(f"sifmod build-wheel ./from-c --output {team}", status=7)
    assert f"everybody may put files into '{team}'" in said
    case.home.chmod(0o700)


def test_a_module_of_an_earlier_sifmod_is_told_where_the_wheel_is(case: Case, built: str) -> None:
    assert built
    lend = case.user.installdir(DEMO_MODULE) / "share/lend.sh"
    text = lend.read_text()
    lend.write_text(text.replace("lend_wheels()", "lend_other()"))
    try:
        said = case.run("sifmod build-wheel ./from-c")
    finally:
        lend.write_text(text)
    assert "lacks a C compiler" not in said, "the tools are fetched once"
    assert f"pip install --find-links {case.wheels} from-c==1.0" in said
    assert f"does not look there by itself. To change that: module unload {DEMO_MODULE}; eb --module-only" in said


def test_a_python_without_headers_that_the_distribution_does_not_have_is_said(lumi: User, tmp_path: Path) -> None:
    source = make_source(tmp_path, "from-c")
    done = lumi.run(f"HOME={tmp_path}; sifmod build-wheel {source} --module {LUMI_MODULE}", status=7)
    assert "has no headers: there is no '/opt/miniconda3/envs/pytorch/include/python3.11/Python.h'" in done.stderr
    assert "--with IMAGE" in done.stderr


def test_an_image_that_has_no_compiler_or_another_python_is_refused(case: Case) -> None:
    said = case.run(f"sifmod build-wheel ./from-c --with {IMAGES}/conda-demo.sif", status=7)
    assert "conda-demo.sif' lacks a C compiler and a C++ compiler and the headers of its Python" in said
    said = case.run(f"sifmod build-wheel ./from-c --with {IMAGES}/samtools.sif", status=7)
    assert f"has no Python of {DEMO_MODULE}: name an image that is built from the module's" in said


@pytest.mark.slow
def test_an_image_built_from_the_module_s_has_the_compilers(case: Case, built: str) -> None:
    assert built
    tools, elsewhere = case.home / "tools", case.home / "elsewhere"
    (packed,) = (case.home / ".cache/sifmod").iterdir()
    case.run(f"unsquashfs -q -n -d {tools} {packed}")
    definition = case.home / "tools.def"
    # the runtime would follow links of a folder
    case.run(f"tar -C {tools} -cf {tools}.tar usr")
    unpacking = (
        f"%files\n    {tools}.tar /tools.tar\n%post\n    tar --no-same-owner -C / -xf /tools.tar\n    rm /tools.tar\n"
    )
    definition.write_text(f"Bootstrap: localimage\nFrom: {IMAGES}/demo.sif\n{unpacking}")
    options = "--mksquashfs-args '-comp gzip -Xcompression-level 1'"
    # without the module, whose bind paths %post would get
    case.user.run(f"singularity build {options} {case.home}/tools.sif {definition}", timeout=900)
    elsewhere.mkdir(mode=0o755)
    said = case.run(f"sifmod build-wheel ./from-c --with {case.home}/tools.sif --output {elsewhere}")
    assert f"pip install --find-links {elsewhere} from-c==1.0" in said
    assert [path.name.split("-")[0] for path in elsewhere.iterdir()] == ["from_c"]
