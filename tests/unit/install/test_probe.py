import json
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.programs import write_program

from sifmod.container.spec import PythonLayout
from sifmod.errors import ImageError
from sifmod.host.runtime import ContainerRuntime
from sifmod.install.probe import PythonFacts, facts_from_answer, probe_python
from sifmod.names import CONTAINED
from sifmod.render.templates import render
from sifmod.resources import program

from ..support import CONDA, USR, FakeRuntime, a_site, a_spec


def test_every_package_of_the_image_is_pinned_to_its_version() -> None:
    facts = PythonFacts("3.10", (("numpy", "1.26.4"), ("torch", "2.2.0+rocm5.6"), ("torch_geometric", "2.4")))
    assert facts.constraints == "numpy==1.26.4\ntorch==2.2.0+rocm5.6\ntorch_geometric==2.4\n"
    assert PythonFacts("3.10", ()).constraints == ""


BUILD_TOOLS = ["pip", "setuptools", "wheel", "Cython", "ninja", "packaging", "setuptools_scm", "Flit.Core", "pybind11"]
NO_NAMES = ["-orch", "~orch", "a b", "x @ file:///y", "x[y]", "_x", "x;y", "é"]


@pytest.mark.parametrize("name", [*BUILD_TOOLS, *NO_NAMES])
def test_build_tools_however_they_are_spelt_and_what_is_no_name_are_not_pinned(name: str) -> None:
    assert PythonFacts("3.10", ((name, "1.0"), ("torch", "2.0"))).constraints == "torch==2.0\n"


# What Debian, Ubuntu, conda and old wheels really have in their metadata.
VERSIONS = ["2.2.0+rocm5.6.1", "1!2.0", "2.0.dev20240101", "1.0rc1", "1.0.post1", "2024.2.2", "0.0.0", "v1.0", "1.0-1"]
NO_VERSIONS = ["1.1build1", "0.1.43ubuntu1", "2004d.x", "unknown", "1.0 beta", "1.0;x", "1.0\n-r /etc/passwd", "*", ""]
MANY_DIGITS = "9" * 5000


@pytest.mark.parametrize("version", [*VERSIONS, *NO_VERSIONS, MANY_DIGITS])
def test_every_line_of_the_constraints_is_one_that_pip_accepts(version: str) -> None:
    lines = PythonFacts("3.10", (("first", "1.0"), ("odd-one", version))).constraints.splitlines()
    assert lines[0] == "first==1.0"
    for line in lines:
        requirement = Requirement(line)
        assert requirement.specifier.contains(line.partition("==")[2], prereleases=True)
    assert (len(lines) == 2) == (version in VERSIONS)


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=8)), max_size=5))
def test_whatever_an_image_says_of_itself_gives_constraints_that_pip_accepts(packages: list[tuple[str, str]]) -> None:
    constraints = PythonFacts("3.10", tuple(packages)).constraints
    assert constraints == "" or constraints.endswith("\n")
    for line in constraints.split("\n")[:-1]:
        requirement = Requirement(line)
        assert (requirement.url, requirement.extras, requirement.marker) == (None, set(), None)
        assert len(requirement.specifier) == 1


def test_the_image_s_python_is_isolated(fake: FakeRuntime, runtime: ContainerRuntime, image: Path) -> None:
    probe_python(runtime, image, CONDA)
    (call,) = fake.calls
    assert call["argv"] == ["exec", str(image), "/opt/miniconda3/envs/pytorch/bin/python3", "-I", "-"]
    assert call["stdin"] == program("probe")


def test_packages_are_sorted_and_the_first_wins(fake: FakeRuntime, runtime: ContainerRuntime, image: Path) -> None:
    found: list[Any] = [
        ["Zope", "1"],
        ["torch", "2.2.0+rocm5.6"],
        ["a_b", "2"],
        ["A-b", "1"],
        ["Torch", "1.0"],
        [None, "3"],
    ]
    found += [["broken", None], ["", "1"]]
    fake.answer(version="3.9", packages=found)
    facts = probe_python(runtime, image, USR)
    # spelt in three ways, torch is one package
    assert facts == PythonFacts("3.9", (("a_b", "2"), ("torch", "2.2.0+rocm5.6"), ("Zope", "1")))


def test_the_question_works_in_a_real_python(tmp_path: Path, image: Path) -> None:
    host = write_program(tmp_path / "host", f'#!/bin/sh\nshift {2 + len(CONTAINED)}\nexec "$@"\n')
    facts = probe_python(ContainerRuntime(host), image, PythonLayout(sys.prefix))
    assert facts.version == ".".join(map(str, sys.version_info[:2]))
    packages: dict[str, str] = {canonicalize_name(name): version for name, version in facts.packages}
    assert packages["pytest"] == installed_version("pytest")
    assert f"hypothesis=={installed_version('hypothesis')}\n" in facts.constraints


@pytest.mark.parametrize(
    ("python", "parameter"), [(CONDA, "conda_root and conda_env"), (USR, "python_prefix")], ids=["conda", "prefix"]
)
def test_a_missing_python_is_named_with_the_parameter_and_what_was_printed(
    fake: FakeRuntime, runtime: ContainerRuntime, image: Path, python: PythonLayout, parameter: str
) -> None:
    fake.answer(fail="probe", status=127)
    with pytest.raises(ImageError) as caught:
        probe_python(runtime, image, python)
    message = str(caught.value)
    assert "'demo.sif'" in message
    assert python.executable in message
    assert parameter in message
    assert "127" in message
    assert "err 40" in message


@pytest.mark.parametrize("answer", ["", "hello", "{", "1", "null", "[]", "{}", json.dumps({"version": "3.11"})])
def test_an_answer_that_makes_no_sense_is_an_error_of_the_image(tmp_path: Path, image: Path, answer: str) -> None:
    strange = write_program(tmp_path / "strange", f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    with pytest.raises(ImageError, match="no working Python at /usr/bin/python3"):
        probe_python(ContainerRuntime(strange), image, USR)


# What another module's command was overwritten with, and what was then run.
ATTACK = ".x\necho CODE\n#/../../../../Other/1.0/bin/tool"


@pytest.mark.parametrize(
    "version",
    [ATTACK, "", "3", "3.11.2", "3.11\n", " 3.11", "3.x", "\N{ARABIC-INDIC DIGIT THREE}.1", 3.11, None, ["3.11"]],
)
def test_a_version_that_is_no_number_is_refused_and_shown_without_effect(version: object) -> None:
    with pytest.raises(ValueError, match="its version is") as caught:
        facts_from_answer(json.dumps({"version": version, "packages": []}))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "package",
    [
        ["--index-url=http://evil", "1"],
        ["torch", "1\n--index-url=http://evil"],
        ["../x", "1"],
        ["a b", "1"],
        ["torch\x1b[2J", "1"],
        ["x" * 500, "1"],
        ["torch", "1" * 500],
        ["torch", 1],
        [["torch"], "1"],
    ],
    ids=str,
)
def test_a_package_with_an_odd_name_or_version_is_left_out(package: list[object]) -> None:
    answer = json.dumps({"version": "3.11", "packages": [package, ["numpy", "1.26.4"]]})
    assert facts_from_answer(answer).packages == (("numpy", "1.26.4"),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ODD_VERSIONS = (
    st.just("3.11") | st.from_regex(r"[0-9]\.[0-9]+") | st.sampled_from([ATTACK, "../..", "3.1/../.."]) | JSON
)
PACKAGES = st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)).map(list) | JSON, max_size=4) | JSON
ANSWERS = st.builds(lambda version, packages: {"version": version, "packages": packages}, ODD_VERSIONS, PACKAGES) | JSON


@given(st.one_of(ANSWERS.map(json.dumps), st.text(max_size=50), st.sampled_from(["[" * 100_000, "9" * 10_000])))
def test_whatever_an_image_answers_writes_only_inside_and_on_lines_of_its_own(answer: str) -> None:
    try:
        facts = facts_from_answer(answer)
    except ValueError:
        return
    assert re.fullmatch(r"[0-9]+\.[0-9]+", facts.version, re.ASCII)
    for artefact in render(a_spec(python_version=facts.version, wrappers=("python", "pip", "torchrun")), a_site()):
        assert re.fullmatch(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*", str(artefact.path))
        assert ".." not in artefact.path.parts
        assert "echo CODE" not in artefact.text
    for line in facts.constraints.splitlines():
        assert str(Requirement(line)) == line
