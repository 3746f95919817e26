"""Known problems in a module: its help, its variables, and what it says when it is loaded."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional

import pytest

from sifmod.advice.advisory import Advisory
from sifmod.container.spec import ContainerSpec
from sifmod.render.environment import setting_variables
from sifmod.render.helptext import usage

from ..support import a_site, a_spec
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
def test_nothing_is_shown_with_the_remedy_s_variables(installed: ContainerSpec, load: Load, syntax: str) -> None:
    must_not = replace(installed, advisories=(an_advisory(variables={"GDR": None}),))
    assert said(load, must_not, syntax) == ([], [])
    assert said(load, must_not, syntax, {"GDR": "PHB"})[0] == ["jobs-hang"]
    must = replace(installed, advisories=(an_advisory(variables={"CMA": "0", "LD_PRELOAD": "/x.so"}),))
    assert said(load, must, syntax)[0] == ["jobs-hang"]
    assert said(load, must, syntax, {"CMA": "0", "SINGULARITYENV_LD_PRELOAD": "/x.so"}) == ([], [])
    own = replace(must, container_env={"CMA": "0", "LD_PRELOAD": "/x.so"})
    assert said(load, own, syntax) == ([], [])
    assert said(load, replace(own, container_env={"CMA": "1", "LD_PRELOAD": "/x.so"}), syntax)[0] == ["jobs-hang"]


def test_help_has_every_advisory_with_its_sources() -> None:
    one = an_advisory(identifier="a", severity="note")
    two = an_advisory(identifier="b", variables={"X": "1", "Y": None})
    spec = a_spec(advisories=(one, two))
    text = usage(spec, a_site())
    assert "Known problems:\n  a: Jobs hang" in text
    assert re.search(r"\n    https://example.org/1\n    https://example.org/2\n  b: Jobs hang", text)
    assert "This module does so" not in text
    assert "This module does so: X=1, unset Y." in usage(spec, a_site(apply_advisories=True)).replace("\n    ", " ")
    assert "Known problems" not in usage(a_spec(), a_site())


def test_remedies_come_after_the_site_and_before_the_easyconfig() -> None:
    spec = a_spec(advisories=(an_advisory(variables={"A": "remedy", "B": None, "C": None, "D": "remedy"}),))
    site = a_site(container_env={"A": "site", "B": "site", "D": "site", "E": "site"})
    spec = replace(spec, container_env={"C": "own", "D": "own"})
    own = {"PYTHONHOME": "", "PYTHONNOUSERSITE": "1", "UV_LINK_MODE": "copy", "JUPYTER_PREFER_ENV_PATH": "1"}
    assert setting_variables(spec, site) == {**own, "A": "site", "B": "site", "C": "own", "D": "own", "E": "site"}
    applied = replace(site, apply_advisories=True)
    assert setting_variables(spec, applied) == {**own, "A": "remedy", "C": "own", "D": "own", "E": "site"}
