"""What an advisory applies to: every condition that it names, and no other."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from sifmod.advice.advisory import Advisory, Match, is_in_range
from sifmod.advice.subject import Subject

TODAY = date(2026, 3, 1)

# A subject that meets every condition below.
SUBJECT = Subject(
    today=TODAY,
    site="lumi",
    runtimes={"apptainer": "1.4.5"},
    tools={"mksquashfs": "4.7.4"},
    drivers={"nvidia": "550.54.15"},
    images=("demo.sif", "docker://example.org/demo:1"),
    digests=frozenset({"sha256:" + "a" * 64}),
    labels={"version": "1.2", "maintainer": "us"},
    packages=(("Torch", "2.0.0+rocm5.6"), ("torch", "1.13.1"), ("libfabric1", "1.17.0-3+deb12u1")),
    libraries=(("MPICH", "4.0.2"), ("RCCL", "2.22.3")),
    built=date(2026, 1, 20),
    gpu="nvidia",
    gpu_libraries="host",
)


def ranges(**wanted: str) -> dict[str, SpecifierSet]:
    return {name: SpecifierSet(text) for name, text in wanted.items()}


# condition -> (a value that holds, one that does not)
CONDITIONS: dict[str, tuple[Any, Any]] = {
    "images": (("other-*", "demo*.sif"), ("demo",)),
    "digests": (("sha256:" + "b" * 64, "sha256:" + "a" * 64), ("sha256:" + "b" * 64,)),
    "labels": ({"version": "1.*", "maintainer": "us"}, {"version": "1.*", "vendor": "*?"}),
    "packages": (ranges(torch=">=2", libfabric1="<1.18"), ranges(torch=">=2", jax="")),
    "libraries": (ranges(MPICH=">=4,<5"), ranges(MPICH=">=4,<5", RCCL=">2.22.3")),
    "built_from": (date(2026, 1, 20), date(2026, 1, 21)),
    "built_before": (date(2026, 1, 21), date(2026, 1, 20)),
    "gpu": ("nvidia", "amd"),
    "gpu_libraries": ("host", "image"),
    "sites": (("zih", "lumi"), ("zih",)),
    "runtimes": (ranges(apptainer=">=1.4", singularity=""), ranges(apptainer=">=1.5")),
    "tools": (ranges(mksquashfs=">=4.7,<4.7.5"), ranges(mksquashfs=">=4.7.5")),
    "drivers": (ranges(nvidia="<560", amd=""), ranges(nvidia=">=560")),
    "since": (TODAY, TODAY + timedelta(days=1)),
    "until": (TODAY, TODAY - timedelta(days=1)),
}


def test_each_condition_is_tried_here() -> None:
    assert set(CONDITIONS) == set(vars(Match()))


@given(st.sets(st.sampled_from(sorted(CONDITIONS))), st.sets(st.sampled_from(sorted(CONDITIONS))))
def test_an_advisory_applies_where_all_its_conditions_hold(named: set[str], wrong: set[str]) -> None:
    match = Match(**{name: CONDITIONS[name][name in wrong] for name in named})
    assert match.holds(SUBJECT) is not bool(named & wrong)


@given(st.sets(st.sampled_from(sorted(set(CONDITIONS) - {"since", "until"})), min_size=1))
def test_what_is_unknown_meets_no_condition(named: set[str]) -> None:
    """Only the GPU driver is decided later, and only if everything else holds."""
    match = Match(**{name: CONDITIONS[name][0] for name in named})
    assert match.holds(Subject(today=TODAY)) is (None if named == {"drivers"} else False)
    assert match.holds(replace(SUBJECT, drivers={})) is (None if "drivers" in named else True)


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_about_containers_or_about_the_node(name: str) -> None:
    about_nodes = {"sites", "runtimes", "tools", "drivers", "since", "until"}
    assert Match(**{name: CONDITIONS[name][0]}).is_about_containers is (name not in about_nodes)


VERSIONS = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@given(VERSIONS, VERSIONS)
def test_a_range_is_that_of_packaging(version: str, limit: str) -> None:
    assert is_in_range(version, SpecifierSet(f"<{limit}")) is (Version(version) < Version(limit))


@given(VERSIONS)
def test_of_a_distribution_s_version_the_numbers_count(version: str) -> None:
    for suffix in ("-1ubuntu1.2", "~rc1-3", "+dfsg-1build1"):
        assert is_in_range(version + suffix, SpecifierSet(f">={version}"))


@given(st.text())
def test_any_text_can_be_a_version(text: str) -> None:
    assert is_in_range(text, SpecifierSet("<1")) in (True, False)


def test_prereleases_and_builds_are_in_their_range() -> None:
    assert is_in_range("2.1.0a0+gitdd4b6bd", SpecifierSet(">=2.0"))  # as in NVIDIA's images
    assert not is_in_range("2.0.0+rocm5.6", SpecifierSet("<2.0"))
    assert not is_in_range("unknown", SpecifierSet(""))
    assert not is_in_range("9" * 5000, SpecifierSet(""))


def test_a_remedy_is_in_force_if_every_variable_is_as_it_says() -> None:
    advisory = Advisory("x", "note", "T.", ("https://x.org",), "R.", {"A": "1", "B": None})
    assert advisory.is_remedied({"A": "1", "C": ""})
    assert not advisory.is_remedied({"A": "1", "B": ""})
    assert not advisory.is_remedied({})
    assert advisory.actions == "A=1, unset B"
    assert not replace(advisory, variables={}).is_remedied({})
