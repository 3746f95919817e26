"""The program that an image is for, as a module."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sifmod.easyconfig.program import named_by, offered, program_of
from sifmod.easyconfig.proposal import Proposal, propose
from sifmod.errors import ParameterError
from sifmod.fetch.uri import ImageUri
from sifmod.image.inspection import Inspection
from sifmod.image.programs import Command, Package, Programs
from sifmod.image.python import ImagePython
from sifmod.site.settings import Site

IMAGE = Inspection(path="images/x.sif", kind="SIF", created=1_710_500_000, os="Debian", os_id="debian")
USR = ImagePython(prefix="/usr", kind="system", version="3.11.2", packages=(), makes_venvs=True)
WITH_PYTHON = replace(IMAGE, pythons=(USR,), default_python="/usr")


def package(name: str, *commands: str, version: str = "1.0", manager: str = "dpkg", **more: Any) -> Package:
    found = tuple(Command(one, f"/usr/bin/{one}", name) for one in commands)
    return Package(name, version, manager, commands=found, **more)


SAMTOOLS = package(
    "samtools",
    "ace2sam",
    "samtools",
    version="1.16.1",
    summary="processing sequence alignments",
    homepage="https://www.htslib.org/",
)
PROGRAMS = Programs(packages=(SAMTOOLS,))


def proposed(programs: Programs = PROGRAMS, image: Inspection = IMAGE, **more: Any) -> Proposal:
    return propose(image, Site(name="here"), programs=programs, **more)


def parameters(programs: Programs = PROGRAMS, image: Inspection = IMAGE, **more: Any) -> Mapping[str, Any]:
    return proposed(programs, image, **more).parameters


@pytest.mark.parametrize(
    ("reference", "name", "version"),
    [
        ("docker://quay.io/biocontainers/samtools:1.9--h91753b0_8", "samtools", "1.9"),
        ("docker://biocontainers/samtools:v1.9-4-deb_cv1", "samtools", "1.9"),
        ("docker://gromacs/gromacs:2023.2", "gromacs", "2023.2"),
        ("docker://registry:5000/tools/r-base:latest", "r-base", ""),
        ("docker://ubuntu", "ubuntu", ""),
        ("docker-daemon:mytool:1.0", "mytool", "1.0"),
        ("containers-storage:localhost/mytool:1.0", "mytool", "1.0"),
        (f"oras://example.org/tool@sha256:{'a' * 64}", "tool", ""),
        ("docker://quay.io/biocontainers/mulled-v2-0123:abc-0", "", ""),
        ("samtools_1.16.1.sif", "samtools", "1.16.1"),
        ("samtools-1.16.1--h6899075_1.sif", "samtools", "1.16.1"),
        ("samtools:1.16.1--h6899075_1", "samtools", "1.16.1"),
        ("quay.io-biocontainers-samtools-1.9--h91753b0_8.simg", "samtools", "1.9"),
        ("gromacs-2024.1-cuda.sif", "gromacs", "2024.1"),
        ("bwa.sif", "bwa", ""),
        ("bwa_latest.sif", "bwa", ""),
        ("my tool-1.sif", "", "1"),
        ("\x1b[31m\n.sif", "", ""),
        (".sif", "", ""),
        ("", "", ""),
        ("1" * 5000, "", ""),
    ],
)
def test_what_a_uri_or_a_file_name_tells(reference: str, name: str, version: str) -> None:
    assert named_by(reference) == (name, version)


def test_the_easyconfig_of_a_program() -> None:
    proposal = proposed(sha256="ab" * 32)
    assert proposal.file_name == "samtools-1.16.1.eb"
    found = proposal.parameters
    assert (found["moduleclass"], found["module_family"], found["homepage"]) == ("tools", "", "https://www.htslib.org/")
    assert found["wrappers"] == ["samtools", "ace2sam"]
    assert " ".join(found["description"].split()) == (
        "samtools 1.16.1 on Debian, in a container. Processing sequence alignments."
    )
    assert found["whatis"][0] == "Description: samtools, processing sequence alignments"
    assert not {"venv", "python_prefix", "conda_env", "expected_packages"} & set(found)
    assert proposal.notes == ()


def test_options_come_before_labels_before_packages_before_names() -> None:
    labels = {"software": "hts", "software.version": "2.0", "about.home": "https://example.org/hts"}
    labelled = replace(IMAGE, labels=labels)
    found = parameters(image=labelled)
    assert (found["name"], found["version"], found["homepage"]) == ("hts", "2.0", "https://example.org/hts")
    found = parameters(image=labelled, name="own", version="3")
    assert (found["name"], found["version"]) == ("own", "3")
    found = parameters(origin="other-7.sif")
    assert (found["name"], found["version"]) == ("samtools", "1.16.1")
    found = parameters(Programs(commands=(Command("x", "/usr/bin/x"),)), origin="other-7.sif")
    assert (found["name"], found["version"], found["wrappers"]) == ("other", "7", ["x"])
    uri = ImageUri.parse(f"docker://quay.io/biocontainers/bwa@sha256:{'a' * 64}")
    found = parameters(Programs(), uri=uri, origin="docker://quay.io/biocontainers/bwa:0.7.17--h5bf99c6_8")
    assert (found["name"], found["version"]) == ("bwa", "0.7.17")


@pytest.mark.parametrize(
    "labels",
    [
        {"org.opencontainers.image.version": "12.1", "org.opencontainers.image.ref.name": "debian"},
        {"org.opencontainers.image.title": "Debian", "org.opencontainers.image.version": "12.1"},
        {"org.opencontainers.image.title": "Debian Base Image", "org.opencontainers.image.version": "12.1"},
        {"software": "../../x", "software.version": "1 0; rm"},
        {"software": "a" * 5000},
        {"software": "\x1b[31mred"},
    ],
)
def test_labels_of_a_base_image_and_those_that_can_not_be_are_left_aside(labels: Mapping[str, str]) -> None:
    found = parameters(image=replace(IMAGE, labels=labels))
    assert (found["name"], found["version"]) == ("samtools", "1.16.1")


def test_of_several_packages_the_main_one_has_the_image_s_name_and_others_are_noted() -> None:
    both = Programs(packages=(package("cmake", "cmake", is_supporting=True), package("bwa", "bwa"), SAMTOOLS))
    found = parameters(both, origin="samtools.sif")
    assert (found["name"], found["wrappers"]) == ("samtools", ["samtools", "bwa", "ace2sam"])
    assert parameters(both)["name"] == "bwa"
    assert parameters(both, name="cmake")["wrappers"] == ["cmake", "bwa", "ace2sam", "samtools"]
    both = Programs(packages=(package("bcftools", "bcftools"), package("vcftools", "vcftools"), SAMTOOLS))
    proposal = proposed(both, origin="tools_1.0.sif")
    assert proposal.parameters["name"] == "bcftools"
    assert proposal.notes == ("the image has vcftools, samtools too: for a module of another name, add --name",)
    assert not proposed(both, origin="vcftools.sif").notes
    assert not proposed(both, name="samtools").notes
    assert not proposed().notes


def test_commands_are_chosen_by_patterns() -> None:
    assert parameters(commands=["ace*"])["wrappers"] == ["ace2sam"]
    with pytest.raises(ParameterError, match="inspect --commands"):
        parameters(commands=["ace*", "bwa"])
    python = replace(USR, commands=("python3", "ipython", "bash", "torchrun", "pip"))
    image = replace(WITH_PYTHON, pythons=(python,))
    assert parameters(image=image, commands=["*"])["wrappers"] == ["python", "pip", "python3", "ipython", "torchrun"]
    with pytest.raises(ParameterError, match="--name"):
        parameters(image=image, commands=["samtools"])


def test_names_that_can_not_be_and_thousands_of_commands_are_left_out_with_a_note() -> None:
    odd = package("x", "ls", "bash", "start-shell", "a b", "\x1b[2J", "a\nwrote it", "$(id)", "good")
    proposal = proposed(Programs(packages=(odd,)))
    assert proposal.parameters["wrappers"] == ["good"]
    needed, names = proposal.notes
    assert needed.startswith("no wrapper for ls, bash, start-shell: the host needs")
    assert "a b" in names
    assert "\x1b" not in names
    assert r"a\nwrote it" in names
    reasons = {command.name: reason for command, reason in offered(Programs(packages=(odd,)))}
    assert [name for name, reason in reasons.items() if not reason] == ["good"]
    assert reasons["ls"] == "the host needs its own"
    many = package("many", *(f"c{number}" for number in range(3000)))
    proposal = proposed(Programs(packages=(many,)))
    assert len(proposal.parameters["wrappers"]) == 1000
    assert "--commands" in proposal.notes[0]


def test_a_python_stays_one_unless_the_image_is_a_biocontainer_or_the_name_is_a_program_s() -> None:
    assert parameters(image=WITH_PYTHON)["python_prefix"] == "/usr"
    assert "--name samtools" in proposed(image=WITH_PYTHON).notes[0]
    assert "python_prefix" not in parameters(image=WITH_PYTHON, name="samtools")
    multiqc = package("multiqc", "multiqc", manager="conda", origin="bioconda")
    found = parameters(Programs(packages=(multiqc,), is_biocontainer=True), WITH_PYTHON)
    assert (found["name"], found["homepage"]) == ("multiqc", "https://anaconda.org/bioconda/multiqc")
    assert found["moduleclass"] == "bio"
    python = Programs(packages=(package("python", "python3", manager="conda"),), is_biocontainer=True)
    assert parameters(python, WITH_PYTHON)["name"] == "Python"
    torch = replace(WITH_PYTHON, pythons=(replace(USR, packages=(("torch", "2.2.0"),)),))
    assert parameters(Programs(packages=(multiqc,), is_biocontainer=True), torch)["name"] == "PyTorch"


def test_an_image_without_anything_known_is_a_container_and_what_can_t_be_read_is_noted() -> None:
    proposal = proposed(Programs(commands=(Command("gmx", "/usr/bin/gmx"),), unread="the database is odd"))
    assert proposal.notes[0].startswith("the database is odd")
    assert proposal.parameters["wrappers"] == ["gmx"]
    found = program_of(IMAGE, Programs(), reference="\x1b.sif")
    assert found is not None
    assert (found.name, found.version, found.wrappers) == ("container", "", ())
