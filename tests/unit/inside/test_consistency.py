"""The program that compares the packages of user software with each other and with the image's."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import packaging.requirements
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.programs import ran, write_file

from sifmod.inside import consistency, trees
from sifmod.inside.consistency import (
    Package,
    hidden_modules,
    named,
    package_of,
    packages_in,
    source_of_editable,
)
from sifmod.resources import program

IMAGE = [
    Package(
        "torch", "2.2.0+rocm5.6", ("numpy<2", "triton==2.2; platform_system == 'Nowhere'", "opt>=9; extra == 'all'")
    ),
    Package("numpy", "1.26.4", ()),
    Package("zope.interface", "5.0", ()),
    Package("odd", "1.1build1", ()),
    Package("broken", "1.0", ("not-there>=1",)),
    Package("pip", "23.0", ()),
    Package("numpy", "1.0", ()),  # behind another one on the search path: not imported
]


def look(*own: Package, is_complete: bool = True) -> list[str]:
    return named(own, IMAGE, packaging.requirements, is_complete=is_complete)


def a(name: str, version: str = "1.0", *requires: str) -> Package:
    return Package(name, version, requires)


def test_what_fits_is_not_named_nor_missing_where_the_image_is_not_fully_known() -> None:
    assert look(a("lightning", "2.2", "torch>=1.13", "Zope_Interface", "numpy", "odd>=2", "own"), a("Own", "3")) == []
    assert look(a("pip", "24.0"), a("setuptools", "65")) == []
    assert look() == []
    assert look(a("needs", "1", "gone", "numpy>=2"), is_complete=False) == [
        "needs 1 requires numpy>=2, but the image has numpy 1.26.4"
    ]


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ([a("needs", "1.0", "Torch >= 2.3")], "needs 1.0 requires Torch>=2.3, but the image has torch 2.2.0+rocm5.6"),
        ([a("needs", "1.0", "gone[x]<2")], "needs 1.0 requires gone[x]<2, which is not installed"),
        ([a("needs", "1.0", "own==1"), a("own", "2")], "needs 1.0 requires own==1, but user software has own 2"),
        ([a("torch", "2.9.0")], "torch 2.9.0 hides the image's torch 2.2.0+rocm5.6"),
        ([a("own", "1"), a("Own", "2")], "Own is there twice in user software: 1 and 2"),
        ([a("needs", "1", "torch[all]")], "torch[all] 2.2.0+rocm5.6 requires opt>=9, which is not installed"),
    ],
)
def test_what_does_not_fit_is_named_with_what_is_there(own: list[Package], line: str) -> None:
    assert look(*own) == [line]


def test_markers_and_extras_decide_what_counts() -> None:
    own = a("needs", "1.0", "gone; python_version < '3'", "gone; extra == 'dev'", "gone; sys_platform == 'win32'")
    assert look(own) == []
    only_there = a("needs", "1.0", "gone; python_full_version < '3.1.4'")
    assert look(only_there) == []
    environment = {"python_full_version": "3.1.3"}
    assert len(named([only_there], IMAGE, packaging.requirements, environment=environment)) == 1


REQUIREMENTS = (
    "plain",
    " spaced [ one, two.x ] (>=1 , !=1.5) ",
    "Name.With-all_of>=1.0,<2.0.dev0; python_version >= '3.6' and extra == 'Some_Extra'",
    "(bracketed);python_version<'3'",
    "wild==1.*;extra=='x'",
    "equal===1.0-local; extra == 'x' or extra == 'some.extra'",
    "either>1; (os_name == 'nt' or os_name == 'posix') and extra == 'x'",
    "tabbed; os_name == 'posix'\tor\tos_name == 'nt' and extra == 'x'",
    "turned; 'x' == extra",
    "not-that; extra != 'x'",
    "word; extra == 'a or b'",
    "address @ https://example.org/a;b.whl ; extra == 'x'",
    "two words",
    "ends-in-",
    "[only]",
    "bad>=; extra == 'x'",
    "bad; extra ==",
    "a<2;;",
    "a<1,,>=0",
    "a[-x]",
    "a; os_name == 'x\\'",
    "a @ https://example.org/z ; 'a\"b' in 'linux'",
    "a (\xa0)",
    "a>=1.0.*",
    "name~=1.4.2; python_full_version > '3'",
)


@pytest.mark.parametrize("parsing", ["packaging.requirements", "pip._vendor.packaging.requirements"])
def test_what_is_taken_apart_here_is_what_the_parser_reads(parsing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package = importlib.import_module(parsing), a("needs", "1", *REQUIREMENTS)

    def read() -> list[list[tuple[str, list[str], str]]]:
        requirements = consistency.Requirements(module, {})
        each = [requirements.of(package, extra) for extra in ("", "x", "some-extra", "nothing", "a or b")]
        return [[(need.name, sorted(need.extras), str(need.specifier)) for need in needs] for needs in each]

    quick = read()
    assert [len(needs) for needs in quick] == [5, 5, 2, 0, 1]
    monkeypatch.setattr(consistency, "PLAIN", re.compile("(?!)"))
    monkeypatch.setattr(consistency, "ONE_EXTRA", re.compile("(?!)"))
    assert read() == quick


@pytest.mark.parametrize("error", [SyntaxError, KeyError, RecursionError])
def test_a_failing_parser_does_not_end_the_check(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_text: str) -> None:
        raise error

    monkeypatch.setattr(packaging.requirements, "Requirement", fail)
    requirements = consistency.Requirements(packaging.requirements, {})
    needs = requirements.of(a("needs", "1", "x @ https://example.org/x", "y>=2"), "")
    assert [need.name for need in needs] == ["y"]


def test_the_parser_which_is_slow_is_asked_for_what_is_unusual_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Watched(packaging.requirements.Requirement):
        def __init__(self, text: str) -> None:
            asked.append(text)
            super().__init__(text)

    monkeypatch.setattr(packaging.requirements, "Requirement", Watched)
    usual = [f"own{number}[x]>=1,<3; python_version >= '3.6'" for number in range(50)]
    look(a("needs", "1", *usual, "other @ https://example.org/a.whl"), *(a(f"own{n}", "2") for n in range(50)))
    assert asked == ["other @ https://example.org/a.whl"]


def test_malformed_metadata_is_left_out_and_lines_end() -> None:
    left = a("left", "1", "right[x]; extra == 'x'")
    right = a("right", "1", "left[x]; extra == 'x'", "gone; extra == 'x'")
    assert look(left, right, a("asks", "1", "left[x]")) == ["right[x] 1 requires gone, which is not installed"]
    own = [
        a("x", "1", "not a requirement", "(" * 900, "a; " + "(" * 900, "torch; nothing == 'x'"),
        a("evil\x1b[2J\u202e", "not a version\n", "gone"),
    ]
    assert look(*own) == ["evil\\x1b[2J\\u202e not a version\\x0a requires gone, which is not installed"]
    (line,) = look(a("n" * 5000, "1", "gone"))
    assert len(line) < 300
    lines = look(a("needs", "1", *(f"gone{number}" for number in range(500))))
    assert (len(lines), lines[-1]) == (101, "... and 400 more")


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=20), st.text(max_size=20))
def test_any_text_of_metadata_ends_in_plain_lines(requires: list[str], name: str, version: str) -> None:
    for line in look(Package(name, version, tuple(requires)), Package(name, "2", ())):
        assert line.isascii()
        assert line.isprintable()


def test_metadata_are_read_up_to_the_description() -> None:
    text = (
        "Metadata-Version: 2.1\nNAME: demo\nVersion: 1.0\nRequires-Dist: one\n two\n"
        "Requires-Dist: three ; extra == 'x'\n\nRequires-Dist: not this\n"
    )
    assert package_of(text) == Package("demo", "1.0", ("one", "three ; extra == 'x'"))
    assert package_of("Name: demo\n") is None
    assert package_of("") is None


def test_every_form_of_metadata_is_found_and_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    for path in (
        "a-1.dist-info/METADATA",
        "stub_for_uv-v1.dist-info/METADATA",
        "b.egg-info/PKG-INFO",
        "c.egg-info",
        "d.egg/EGG-INFO/PKG-INFO",
        "~e.dist-info/METADATA",
    ):
        write_file(tmp_path / path, f"Name: {path[0]}\nVersion: 1\n")
    (tmp_path / "f.dist-info").mkdir()
    os.mkfifo(tmp_path / "f.dist-info" / "METADATA")
    assert [package.name for package in packages_in(str(tmp_path))] == ["a", "b", "c", "d"]
    assert [package.name for package in packages_in(str(tmp_path / "d.egg"))] == ["d"]
    assert list(packages_in(str(tmp_path / "gone"))) == []


def test_the_packages_that_no_user_installs_are_those_of_trees() -> None:
    assert consistency.SEEDED == trees.SEEDED


def write_package(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


def run(user_software: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return ran(
        [sys.executable, "-I", *flags, "-", user_software],
        input=program("consistency"),
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )


def test_the_program_compares_each_environment_with_the_python_that_runs_it(tmp_path: Path) -> None:
    first = tmp_path / "venv" / "first" / "lib" / "python3.11" / "site-packages"
    second = tmp_path / "venv" / "second" / "lib" / "python3.11" / "site-packages"
    write_package(first, "own", "1.0", "pytest>=1", "pluggy")
    write_package(second, "own", "1.0")
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "2 packages of user software: each fits the others and the image's\n"
    write_package(second, "pytest", "0.1")
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"pytest 0.1 hides the image's pytest {pytest.__version__}\n"


def test_without_a_parser_in_the_image_the_users_pip_has_one(tmp_path: Path) -> None:
    site_packages = tmp_path / "venv" / "demo" / "lib" / "python3.11" / "site-packages"
    write_package(site_packages, "own", "1.0", "gone>=1")
    done = run(tmp_path, "-S")
    assert (done.returncode, done.stdout) == (2, "")
    assert "neither the Python package packaging nor pip" in done.stderr
    vendored = site_packages / "pip" / "_vendor"
    vendored.mkdir(parents=True)
    (vendored.parent / "__init__.py").touch()
    (vendored / "__init__.py").touch()
    (vendored / "packaging").symlink_to(Path(packaging.requirements.__file__).parent)
    done = run(tmp_path, "-S")
    assert (done.returncode, done.stdout) == (1, "own 1.0 requires gone>=1, which is not installed\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ('{"url": "file:///a%20b/c", "dir_info": {"editable": true}}', "/a b/c"),
        ('{"url": "file:///a", "dir_info": {}}', ""),
        ('{"url": "https://x/a", "dir_info": {"editable": true}}', ""),
        ('{"url": 1, "dir_info": {"editable": true}}', ""),
        ('["url"]', ""),
        ("[" * 100_000, ""),
        ("", ""),
    ],
)
def test_the_folder_of_an_editable_install(text: str, source: str) -> None:
    assert source_of_editable(text) == source


def test_modules_without_metadata_are_compared_by_name(tmp_path: Path) -> None:
    for name in (
        "torch/__init__.py",
        "numpy.cpython-311.so",
        "data/x.txt",
        "yaml/__init__.py",
        "torch.txt",
        "wave.pyc",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "PyYAML-6.dist-info").mkdir()
    (tmp_path / "PyYAML-6.dist-info/RECORD").write_text("yaml/__init__.py,,\n")
    known = ("Torch", "numpy", "data", "yaml", "wave")
    assert [line.partition(" of ")[0] for line in hidden_modules(f":rel:{tmp_path}:/gone", known)] == [
        f"'{tmp_path}/numpy.cpython-311.so'",
        f"'{tmp_path}/torch'",
    ]
