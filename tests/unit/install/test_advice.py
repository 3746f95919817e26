"""The facts that advisories are compared with: of an image, and of this node."""

from datetime import date
from pathlib import Path

import pytest

from sifmod.advice.subject import Subject
from sifmod.host.versions import HostVersions
from sifmod.image.inspection import inspect_image
from sifmod.install.advice import about, container_subject, known_problems, node_subject
from sifmod.site.advisories import load_advisories

from ..imagetrees import linux, write
from ..support import a_site, a_spec


def test_the_facts_of_an_image_are_those_of_its_files(tmp_path: Path) -> None:
    top = linux(tmp_path)
    write(top, "/.sbom.json", '{"apt": [{"name": "libcxi1", "version": "1.0"}]}')
    image = inspect_image(top)
    digest, registry = "a" * 64, "sha256:" + "b" * 64
    names = ("x.sif", "", "docker://x", "x.sif")
    node = Subject(today=date(2026, 1, 1), site="lumi")
    subject = container_subject(node, image, names=names, digests=(digest, registry, ""), gpu="", gpu_libraries="host")
    assert (subject.today, subject.site, subject.images) == (date(2026, 1, 1), "lumi", ("x.sif", "docker://x"))
    assert subject.digests == {f"sha256:{digest}", registry}
    assert subject.labels == image.labels
    assert {("libcxi1", "1.0"), ("mpich", "4.0.2-3")} <= set(subject.packages)
    assert {pair for python in image.pythons for pair in python.packages} <= set(subject.packages)
    assert ("MPICH", "4.0.2") in subject.libraries
    assert (subject.built, subject.gpu, subject.gpu_libraries) == (None, "", "")


@pytest.mark.parametrize("name", ["lumi", "/etc/sifmod/lumi.toml"])
def test_a_site_s_own_file_has_its_name(name: str) -> None:
    node = node_subject(a_site(name=name), HostVersions({"apptainer": "1.4.5"}))
    assert (node.site, node.runtimes, node.drivers) == ("lumi", {"apptainer": "1.4.5"}, {})


@pytest.mark.parametrize(
    ("image", "site", "found"),
    [
        (
            "lumi-multitorch-full-u24r70f21m50t210-20260415_130625.sif",
            "lumi",
            ["nccl-net-gdr-level", "mr-cache-monitor"],
        ),
        ("lumi-multitorch-full-u24r64f21m43t29-20260319_153422.sif", "lumi", ["mr-cache-monitor"]),
        ("lumi-multitorch-full-u24r70f21m50t210-20260415_130625.sif", "generic", []),
        ("pytorch.sif", "lumi", []),
    ],
)
def test_what_is_shipped_about_lumi_is_for_its_images_there(image: str, site: str, found: list[str]) -> None:
    problems = known_problems(a_spec(sif=image), a_site(name=site), HostVersions(), None, names=(image,), digests=())
    assert [one.identifier for one in problems] == [f"lumi-{name}" for name in found]


def test_what_is_shipped_about_runtimes_depends_on_the_version_and_the_gpu() -> None:
    def identifiers(version: str, gpu: str, libraries: str) -> set[str]:
        node = node_subject(a_site(), HostVersions({"apptainer": version}))
        subject = container_subject(node, None, names=(), gpu=gpu, gpu_libraries=libraries)
        return {one.identifier for one in about(load_advisories(a_site()), subject)}

    assert identifiers("1.3.6", "amd", "host") == set()
    assert identifiers("1.4.5", "amd", "host") == {"apptainer-rocm-libraries"}
    assert identifiers("1.4.5", "amd", "image") == set()
    assert identifiers("1.5.2", "nvidia", "host") == set()
