"""Known problems in a module: its help, its variables, and what it says when it is loaded."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from sifmod.advice.advisory import Advisory, Match
from sifmod.container import gpu
from sifmod.container.spec import ContainerSpec
from sifmod.render import values
from sifmod.render.environment import setting_variables
from sifmod.render.helptext import usage

from ..support import Need, a_site, a_spec
from .running import Load

SYNTAXES = pytest.mark.parametrize("syntax", ["Lua", "Tcl"])


def an_advisory(**changes: Any) -> Advisory:
    fields: dict[str, Any] = {
        "identifier": "jobs-hang",
        "severity": "problem",
        "text": 'Jobs hang "here", it\'s $sad.',
        "sources": ("https://example.org/1", "https://example.org/2"),
        "remedy": "Wait.",
    }
    return Advisory(**{**fields, **changes})


def said(
    load: Load, spec: ContainerSpec, syntax: str, environ: Optional[Mapping[str, str]] = None, mode: str = "load"
) -> tuple[list[str], list[str]]:
    """Return the advisories that a module shows, and what the calling shell is told to run."""
    done = load.run(spec, None, environ, syntax=syntax, mode=mode)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"Known problem \((\S+)\): .*", done.stderr.decode())
    words = re.findall(r"export __SIFMOD_ADVISED=\S*;", done.stdout.decode())
    return shown, words


@SYNTAXES
def test_a_severe_advisory_is_shown_once_in_a_shell(installed: ContainerSpec, load: Load, syntax: str) -> None:
    spec = replace(installed, advisories=(an_advisory(), an_advisory(identifier="rare", severity="warning")))
    assert said(load, spec, syntax) == (["jobs-hang"], ["export __SIFMOD_ADVISED=jobs-hang;"])
    before = {"__SIFMOD_ADVISED": "other:jobs-hang-too"}
    assert said(load, spec, syntax, before) == (["jobs-hang"], [f"export {'='.join(*before.items())}:jobs-hang;"])
    assert said(load, spec, syntax, {"__SIFMOD_ADVISED": "other:jobs-hang"}) == ([], [])
    nasty = {"__SIFMOD_ADVISED": "a;$(touch x)`id`' b"}
    assert said(load, spec, syntax, nasty)[1] == ["export __SIFMOD_ADVISED=atouchxidb:jobs-hang;"]
    for mode in ("unload", "show"):
        assert said(load, spec, syntax, mode=mode) == ([], [])
    text = load.run(spec, syntax=syntax).stderr.decode()
    assert an_advisory().sentences in text


@SYNTAXES
def test_nothing_is_shown_where_the_variables_are_as_the_remedy_says(
    installed: ContainerSpec, load: Load, syntax: str
) -> None:
    must_not = replace(installed, advisories=(an_advisory(variables={"GDR": None}),))
    assert said(load, must_not, syntax) == ([], [])
    assert said(load, must_not, syntax, {"GDR": "PHB"})[0] == ["jobs-hang"]
    must = replace(installed, advisories=(an_advisory(variables={"CMA": "0", "LD_PRELOAD": "/x.so"}),))
    assert said(load, must, syntax)[0] == ["jobs-hang"]
    assert said(load, must, syntax, {"CMA": "0", "SINGULARITYENV_LD_PRELOAD": "/x.so"}) == ([], [])
    own = replace(must, container_env={"CMA": "0", "LD_PRELOAD": "/x.so"})
    assert said(load, own, syntax) == ([], [])
    assert said(load, replace(own, container_env={"CMA": "1", "LD_PRELOAD": "/x.so"}), syntax)[0] == ["jobs-hang"]


DRIVER_LINES = {
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n": True,
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.28.03  Release Build\n": False,
    "6.10.5\n": True,
    "NVRM version: unknown\n": False,
    "": False,
}


@SYNTAXES
@pytest.mark.parametrize("line", DRIVER_LINES)
def test_the_driver_of_the_node_decides(
    installed: ContainerSpec, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syntax: str, line: str
) -> None:
    file = tmp_path / "version"
    vendor = replace(gpu.VENDORS["nvidia"], driver_file=str(file))
    monkeypatch.setattr(values, "VENDORS", {"nvidia": vendor})
    match = Match(drivers={"nvidia": SpecifierSet("<560.28.03,>=6,!=7.1")})
    spec = replace(installed, advisories=(an_advisory(match=match),))
    assert said(load, spec, syntax) == ([], [])  # no driver is loaded
    file.write_text(line)
    assert (said(load, spec, syntax)[0] == ["jobs-hang"]) is DRIVER_LINES[line]


NUMBERS = st.lists(st.integers(0, 12), min_size=2, max_size=4).map(lambda parts: ".".join(map(str, parts)))
OPERATORS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


@SYNTAXES
@settings(max_examples=25)
@given(version=NUMBERS, limit=NUMBERS, operator=OPERATORS)
def test_modules_compare_versions_as_python_does(
    tmp_path_factory: pytest.TempPathFactory, need: Need, syntax: str, version: str, limit: str, operator: str
) -> None:
    top = tmp_path_factory.mktemp("versions")
    (top / "driver").write_text(f"{version}\n")
    (top / "demo.sif").touch()
    (top / "share").mkdir()
    (top / "share/container.sh").touch()
    vendors = {"amd": replace(gpu.VENDORS["amd"], driver_file=str(top / "driver"))}
    wanted = SpecifierSet(f"{operator}{limit}")
    spec = a_spec(installdir=str(top), venv="", advisories=(an_advisory(match=Match(drivers={"amd": wanted})),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "VENDORS", vendors)
        shown, _words = said(Load(need), spec, syntax)
    assert bool(shown) is wanted.contains(Version(version))


def test_help_has_every_advisory_with_its_sources() -> None:
    one = an_advisory(identifier="a", severity="note", match=Match(drivers={"amd": SpecifierSet("<6.10")}))
    two = an_advisory(identifier="b", variables={"X": "1", "Y": None})
    spec = a_spec(advisories=(one, two))
    text = usage(spec, a_site())
    assert "Known problems:\n  a: With the amdgpu driver <6.10: Jobs hang" in text
    assert re.search(r"\n    https://example.org/1\n    https://example.org/2\n  b: Jobs hang", text)
    assert "This module does so" not in text
    assert "This module does so: X=1, unset Y." in usage(spec, a_site(apply_advisories=True)).replace("\n    ", " ")
    assert "Known problems" not in usage(a_spec(), a_site())


def test_remedies_come_after_the_site_and_before_the_easyconfig() -> None:
    spec = a_spec(advisories=(an_advisory(variables={"A": "remedy", "B": None, "C": None, "D": "remedy"}),))
    site = a_site(container_env={"A": "site", "B": "site", "D": "site", "E": "site"})
    spec = replace(spec, container_env={"C": "own", "D": "own"})
    own = {"PYTHONHOME": "", "PYTHONNOUSERSITE": "1", "UV_LINK_MODE": "copy"}
    assert setting_variables(spec, site) == {**own, "A": "site", "B": "site", "C": "own", "D": "own", "E": "site"}
    applied = replace(site, apply_advisories=True)
    assert setting_variables(spec, applied) == {**own, "A": "remedy", "C": "own", "D": "own", "E": "site"}
    some_drivers = Match(drivers={"amd": SpecifierSet("<6.10")})
    decided_later = replace(spec, advisories=(replace(spec.advisories[0], match=some_drivers),))
    assert setting_variables(decided_later, applied) == setting_variables(spec, site)


def test_the_files_of_drivers_are_where_the_kernel_has_them() -> None:
    for vendor in gpu.VENDORS.values():
        assert vendor.driver_file.startswith(("/proc/", "/sys/"))
