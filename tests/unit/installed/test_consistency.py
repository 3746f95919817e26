from collections.abc import Callable
from pathlib import Path

import pytest

from sifmod.eb.space import SoftwareSpace
from sifmod.finding import NOTE, OK, WARNING, Finding
from sifmod.installed.consistency import packages_in_container, packages_on_disk
from sifmod.installed.installation import Installation, find_installation
from sifmod.installed.verification import verify

from ..imagetrees import squashfs, write
from ..support import Need, a_site, make_installation

MODULE = "Demo/1.0-x"
FOLDER = "user-software/venv/demo/lib/python3.11/site-packages"
CONSTRAINTS = "torch==2.2.0\nnumpy==1.26.4\n"


@pytest.fixture
def root(space: SoftwareSpace) -> Path:
    return make_installation(space, MODULE)


@pytest.fixture
def item(root: Path, space: SoftwareSpace) -> Installation:
    write(root, "runscripts/pip-constraints.txt", CONSTRAINTS)
    return find_installation(space, MODULE)


def install(root: Path, name: str, version: str, *requires: str) -> None:
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    write(root, f"{FOLDER}/{name}-{version}.dist-info/METADATA", "\n".join(lines) + "\n")


def whats(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.what) for finding in findings]


def test_without_packages_of_users_nothing_is_said(item: Installation) -> None:
    assert list(packages_on_disk(item)) == list(packages_in_container(item)) == []


def test_a_second_torch_is_named_and_what_does_not_fit(item: Installation) -> None:
    install(item.root, "torch", "2.9.0", "not-known-here", "numpy>=2")
    install(item.root, "numpy", "v1.26.4")  # a stub for uv
    findings = list(packages_on_disk(item))
    assert whats(findings) == [
        (WARNING, "torch 2.9.0 hides the image's torch 2.2.0"),
        (WARNING, "torch 2.9.0 requires numpy>=2, but the image has numpy 1.26.4"),
    ]
    assert all(finding.why and finding.remedy for finding in findings)


def test_markers_are_those_of_the_container_s_python(item: Installation) -> None:
    install(item.root, "own", "1", "numpy>=2; python_version < '3.11'", "numpy>=2; python_full_version < '3.11.2'")
    assert len(list(packages_on_disk(item))) == 1
    write(item.root, "user-software/venv/demo/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    (finding,) = packages_on_disk(item)
    assert finding.severity == OK
    assert "list-packages --check" in finding.what


def test_in_a_packed_file_they_are_read_too(item: Installation, need: Need) -> None:
    install(item.root, "torch", "2.9.0")
    squashfs(need("mksquashfs"), item.root / "user-software", item.root / "user-software.squashfs")
    (item.root / "user-software").rename(item.root / "elsewhere")
    assert whats(list(packages_on_disk(item))) == [(WARNING, "torch 2.9.0 hides the image's torch 2.2.0")]
    packed = item.root / "user-software.squashfs"
    packed.write_bytes(packed.read_bytes()[:96] + bytes(packed.stat().st_size - 96))
    ((severity, what),) = whats(list(packages_on_disk(item)))
    assert severity == NOTE
    assert what.startswith("they were not compared: ")


def test_without_the_list_of_the_image_s_packages_it_says_what_it_left_out(item: Installation) -> None:
    install(item.root, "own", "1")
    (item.root / "runscripts" / "pip-constraints.txt").unlink()
    (finding,) = packages_on_disk(item)
    assert (finding.severity, "pip_constraints is off" in finding.what) == (NOTE, True)
    assert finding.remedy.endswith("list-packages --check")


@pytest.fixture
def answering(space: SoftwareSpace) -> Callable[[str], Installation]:
    """Return an installation with a package, whose list-packages does this."""

    def make(script: str) -> Installation:
        files = ("bin/list-packages", "runscripts/consistency.py", "share/sifmod.json")
        root = make_installation(space, MODULE, files=files)
        install(root, "own", "1")
        write(root, "bin/list-packages", f"#!/bin/sh\n{script}\n").chmod(0o755)
        return find_installation(space, MODULE)

    return make


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('[ "$*" = --check ] && echo "1 package fits"', [(OK, "1 package fits")]),
        ("echo one; echo two; exit 1", [(WARNING, "one"), (WARNING, "two")]),
        ("echo 'x hides y: unset PYTHONPATH'; exit 1", [(WARNING, "x hides y")]),
        ("echo no parser >&2; exit 2", [(NOTE, "they were not compared: no parser")]),
        ("echo Traceback >&2; exit 1", [(NOTE, "they were not compared: Traceback")]),
    ],
)
def test_the_container_s_answer_becomes_findings(
    answering: Callable[[str], Installation], script: str, found: list[tuple[str, str]]
) -> None:
    assert whats(list(packages_in_container(answering(script)))) == found


@pytest.mark.parametrize("fast", [False, True])
def test_an_installation_of_an_earlier_release_is_compared_on_disk_by_verify(item: Installation, fast: bool) -> None:
    install(item.root, "torch", "2.9.0")
    found = [finding.what for finding in verify(item, a_site(), fast=fast) if finding.topic == "packages"]
    assert found == ["torch 2.9.0 hides the image's torch 2.2.0"]
