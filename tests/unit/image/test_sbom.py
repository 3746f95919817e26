"""The packages of an image, and its software bill of materials."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given
from hypothesis import strategies as st

from sifmod.image import inventory as inventory_module
from sifmod.image.files import SandboxFiles
from sifmod.image.inventory import APK, CONDA, DEB, PYPI, RPM, InstalledPackage, Inventory, find_inventory
from sifmod.image.python import ImagePython
from sifmod.image.sbom import cyclonedx

from ..imagetrees import write
from ..rpmdatabases import rpm_database, rpm_header

STATUS = """Package: libc6
Status: install ok installed
Source: glibc (1:2.36-9)
Architecture: amd64
Multi-Arch: same
Version: 1:2.36-9+deb12u7
Description: GNU C Library
 of many lines

Package: gone
Status: deinstall ok config-files
Version: 1

Package: ../x
Status: install ok installed
Version: 1
"""


def validated(text: str) -> dict[str, Any]:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document: dict[str, Any] = json.loads(text)
    return document


def urls(inventory: Inventory) -> list[str]:
    document = validated(cyclonedx(inventory, name="x.sif", labels={}, sha256="ab" * 32, seconds=1))
    return [one["purl"] for one in document["components"] if "purl" in one]


def python(prefix: str, **facts: Any) -> ImagePython:
    return replace(ImagePython(prefix=prefix, kind="venv", version="3.11.2", packages=()), **facts)


def test_packages_of_debian_conda_and_pip(tmp_path: Path) -> None:
    write(tmp_path, "/var/lib/dpkg/status", STATUS)
    conda_note = {"name": "_libgcc_mutex", "files": ["a"], "license": "LGPL-2.1-only"}
    write(tmp_path, "/opt/conda/conda-meta/_libgcc_mutex-0.1-main.json", json.dumps(conda_note))
    write(tmp_path, "/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    of_pip = (("Jinja2", "3.1.2"), ("torch", "2.7.1+rocm6.2"))
    pythons = (
        python("/usr", packages=of_pip, licences=(("Jinja2", "BSD-3-Clause"),)),
        python("/opt/conda", packages=(("Jinja2", "3.1.2"),), conda_packages=(("_libgcc_mutex", "0.1"),)),
    )
    found = find_inventory(SandboxFiles(tmp_path), pythons)
    assert [(one.manager, one.name, one.version) for one in found.packages] == [
        (CONDA, "_libgcc_mutex", "0.1"),
        (DEB, "libc6", "1:2.36-9+deb12u7"),
        (PYPI, "Jinja2", "3.1.2"),
        (PYPI, "torch", "2.7.1+rocm6.2"),
    ]
    assert found.packages[2].prefixes == ("/usr", "/opt/conda")
    assert [one.licence for one in found.packages] == ["LGPL-2.1-only", "", "BSD-3-Clause", ""]
    assert found.missing == ("1 package is noted without a valid name and version",)
    assert sorted(urls(found)) == [
        "pkg:conda/_libgcc_mutex@0.1",
        "pkg:deb/debian/libc6@1:2.36-9%2Bdeb12u7?arch=amd64&distro=debian-12&upstream=glibc%401:2.36-9",
        "pkg:pypi/jinja2@3.1.2",
        "pkg:pypi/torch@2.7.1%2Brocm6.2",
    ]


def test_a_package_is_one_however_it_is_spelt_and_without_a_source_that_is_none(tmp_path: Path) -> None:
    pythons = (python("/usr", packages=(("Zope.Event", "5"),)), python("/opt/x", packages=(("zope_event", "5"),)))
    found = find_inventory(SandboxFiles(tmp_path), pythons)
    assert [(one.name, one.prefixes) for one in found.packages] == [("Zope.Event", ("/usr", "/opt/x"))]
    assert urls(found) == ["pkg:pypi/zope-event@5"]
    write(tmp_path, "/var/lib/dpkg/status", STATUS.replace("glibc (1:2.36-9)", "glibc (1?x=y&z)"))
    (package,) = find_inventory(SandboxFiles(tmp_path), ()).packages
    assert (package.name, package.source) == ("libc6", "")


def test_packages_of_rpm(tmp_path: Path) -> None:
    write(tmp_path, "/etc/os-release", "ID=rhel\nVERSION_ID=9.4\n")
    rpm_database(
        tmp_path,
        rpm_header(transaction=1, name="bash", files=[], epoch=2, licence="GPL-3.0-or-later"),
        rpm_header(transaction=1, name="gpg-pubkey", files=[]),
        rpm_header(transaction=1, name="odd", files=[], licence="Public Domain and \x1b[31m"),
    )
    found = find_inventory(SandboxFiles(tmp_path), ())
    assert found.packages[0] == InstalledPackage(
        RPM, "bash", "2.1-4.el9", "x86_64", epoch=2, licence="GPL-3.0-or-later"
    )
    document = validated(cyclonedx(found, name="x.sif", labels={}))
    by_name = {one["name"]: one for one in document["components"]}
    assert by_name["bash"]["purl"] == "pkg:rpm/redhat/bash@2.1-4.el9?arch=x86_64&distro=rhel-9.4&epoch=2"
    assert by_name["bash"]["licenses"] == [{"license": {"id": "GPL-3.0-or-later"}}]
    assert by_name["odd"]["licenses"] == [{"license": {"name": r"Public Domain and \x1b[31m"}}]
    assert by_name["rhel"]["type"] == "operating-system"
    assert "gpg-pubkey" not in by_name


def test_packages_of_alpine(tmp_path: Path) -> None:
    write(tmp_path, "/etc/os-release", "ID=alpine\nVERSION_ID=3.20.1\n")
    musl = "C:Q1\nP:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\no:musl\nF:lib\n"
    write(tmp_path, "/lib/apk/db/installed", f"{musl}\nP:musl-utils\nV:1.2.5-r0\no:musl\n\n")
    found = find_inventory(SandboxFiles(tmp_path), ())
    assert found.packages[0] == InstalledPackage(APK, "musl", "1.2.5-r0", "x86_64", licence="MIT")
    assert sorted(urls(found)) == [
        "pkg:apk/alpine/musl-utils@1.2.5-r0?distro=alpine-3.20.1&upstream=musl",
        "pkg:apk/alpine/musl@1.2.5-r0?arch=x86_64&distro=alpine-3.20.1",
    ]


@pytest.mark.parametrize(
    "note",
    ["", "[]", "{", '{"license": 7}', "[" * 100_000, json.dumps({"license": "MIT", "files": "a" * (5 << 20)})],
    ids=["empty", "list", "cut off", "number", "deep", "large"],
)
def test_a_note_of_conda_that_is_not_one_has_no_licence(tmp_path: Path, note: str) -> None:
    write(tmp_path, "/opt/conda/conda-meta/zlib-1.3-h1.json", note)
    write(tmp_path, "/opt/conda/conda-meta/history", "not a package")
    conda = python("/opt/conda", conda_packages=(("zlib", "1.3"),))
    (found,) = find_inventory(SandboxFiles(tmp_path), (conda,)).packages
    assert (found.name, found.licence) == ("zlib", "")


def test_a_database_that_only_rpm_reads_is_named_in_the_document(tmp_path: Path) -> None:
    write(tmp_path, "/var/lib/rpm/Packages", "x")
    found = find_inventory(SandboxFiles(tmp_path), ())
    document = validated(cyclonedx(found, name="x", labels={}))
    (said,) = document["metadata"]["properties"]
    assert said["name"] == "sifmod:missing"
    assert "Berkeley DB" in said["value"]


def test_the_image_is_what_the_document_is_about() -> None:
    labels = {"org.opencontainers.image.title": "vendor/pytorch", "org.opencontainers.image.version": "24.03"}
    inventory = Inventory(packages=(InstalledPackage(PYPI, "torch", "2.7.1", prefixes=("/usr",)),))
    text = cyclonedx(inventory, name="x.sif", labels=labels, sha256="ab" * 32, seconds=86400)
    document = validated(text)
    image = document["metadata"]["component"]
    assert (image["type"], image["name"], image["version"]) == ("container", "vendor/pytorch", "24.03")
    assert image["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert document["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"
    assert {"ref": "image", "dependsOn": ["pkg:pypi/torch@2.7.1"]} in document["dependencies"]
    assert text == cyclonedx(inventory, name="x.sif", labels=labels, sha256="ab" * 32, seconds=86400)
    hostile = {"org.opencontainers.image.title": "a\x1b[2J", "org.opencontainers.image.version": "\n" * 9}
    image = validated(cyclonedx(inventory, name="x\n.sif", labels=hostile))["metadata"]["component"]
    assert (image["name"], image.get("version")) == (r"x\n.sif", None)


def test_a_directory_has_the_serial_number_of_its_packages() -> None:
    one, other = (Inventory(packages=(InstalledPackage(PYPI, name, "1"),)) for name in ("a", "b"))
    numbers = [validated(cyclonedx(each, name="x", labels={}))["serialNumber"] for each in (one, one, other)]
    assert numbers[0] == numbers[1] != numbers[2]


texts = st.text(max_size=30) | st.sampled_from(["torch", "2.7", "a" * 300, "x@1?y=z#f", "%41", "\ud800", "../x"])


# What names of files can be: bytes that are not UTF-8 are surrogates.
prefixes = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30) | st.just("/o\udcff")


@given(st.lists(st.tuples(texts, texts), max_size=8), prefixes, texts)
def test_whatever_an_image_notes_the_document_is_valid(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], prefix: str, name: str
) -> None:
    empty = tmp_path_factory.mktemp("image", numbered=True)
    foreign = python(prefix, packages=tuple(pairs), conda_packages=tuple(pairs), licences=tuple(pairs))
    found = find_inventory(SandboxFiles(empty), (foreign,))
    document = validated(cyclonedx(found, name=name, labels={"org.opencontainers.image.title": prefix}))
    assert len(document.get("components", [])) == len(found.packages)


odd_licences = ["MIT", "mit", "MIT OR", "GPL-2.0+ AND (", "A" * 9000, "\ud800", " "]
licences = st.text(max_size=300) | st.sampled_from(odd_licences)


@given(st.lists(licences, min_size=1, max_size=4))
def test_whatever_an_image_notes_as_licence_the_document_is_valid(noted: list[str]) -> None:
    packages = tuple(InstalledPackage(PYPI, "a", str(i), licence=licence) for i, licence in enumerate(noted))
    document = validated(cyclonedx(Inventory(packages=packages), name="x", labels={}))
    assert len(document["components"]) == len(noted)


def test_many_packages_take_no_longer_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for each among all of them would take minutes for 20,000."""
    inventory = Inventory(tuple(InstalledPackage(DEB, f"p{number}", "1") for number in range(100)), "debian", "12")
    compared: list[object] = []
    monkeypatch.setattr(Bom, "register_dependency", lambda *words, **_options: compared.append(words))
    document = validated(cyclonedx(inventory, name="x.sif", labels={}))
    assert not compared
    depending = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    assert len(depending) == 102
    assert sorted(depending["image"]) == sorted(set(depending) - {"image"})


def test_more_packages_than_any_image_has_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_module, "_MOST_PACKAGES", 1)
    facts = python("/opt", packages=(("a", "1"), ("b", "1")))
    found = find_inventory(SandboxFiles(tmp_path), [facts])
    assert [one.name for one in found.packages] == ["a"]
    assert found.missing == ("of 2 packages the first 1 are listed",)
