"""Installed modules in the words of workflow managers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Optional

import pytest

from sifmod.eb.space import SoftwareSpace
from sifmod.errors import SifmodError
from sifmod.installed.installation import Installation, find_installations
from sifmod.text.yaml import read_yaml
from sifmod.upkeep.workflows import link_for_nextflow, nextflow_names, reframe_test, snakemake_profile

from ..support import make_installation

DIGEST = f"sha256:{'a' * 64}"
SAMTOOLS = "quay.io-biocontainers-samtools-1.9--h1.img"


@pytest.mark.parametrize(
    ("origin", "names"),
    [
        (
            "docker://quay.io/biocontainers/samtools:1.9--h1",
            [SAMTOOLS, "depot.galaxyproject.org-singularity-samtools-1.9--h1.img"],
        ),
        ("docker://debian:12", ["debian-12.img", "docker.io-library-debian-12.img", "library-debian-12.img"]),
        (
            "docker://docker.io/library/debian",
            [
                "docker.io-library-debian.img",
                "docker.io-library-debian-latest.img",
                "library-debian-latest.img",
                "debian-latest.img",
            ],
        ),
        ("docker://a/library/b:1", ["a-library-b-1.img", "docker.io-a-library-b-1.img"]),
        (
            f"docker://example.org:5000/a/b:1@{DIGEST}",
            [
                "example.org-5000-a-b-1.img",
                f"example.org-5000-a-b-1@sha256-{'a' * 64}.img",
                f"example.org-5000-a-b@sha256-{'a' * 64}.img",
            ],
        ),
        ("Dockerfile (abc)", []),
        (f"docker://example.org/{'a' * 300}:1", []),
        # as pipelines of nf-core name images that they take from there
        (
            "https://depot.galaxyproject.org/singularity/samtools:1.9--h1",
            ["depot.galaxyproject.org-singularity-samtools-1.9--h1.img"],
        ),
        ("https://example.org/x.sif", ["example.org-x.sif"]),
        ("oras://example.org/x.sif:1.0", ["example.org-x-1.0.sif"]),
        ("library://a/b/c:1", ["a-b-c-1.img"]),
        ("docker://../../etc/passwd:1", None),
    ],
)
def test_the_names_are_those_that_nextflow_looks_for(origin: str, names: Optional[list[str]]) -> None:
    found = nextflow_names(origin)
    assert all("/" not in name for name in found)
    assert names is None or list(found) == names


@pytest.fixture
def items(tmp_path: Path) -> tuple[Installation, ...]:
    space = SoftwareSpace(software=tmp_path / "software", modules=tmp_path / "modules")
    make_installation(
        space, "samtools/1.9", image_origin="docker://quay.io/biocontainers/samtools:1.9--h1", python_version=""
    )
    make_installation(space, "Python/3.11-demo")
    return find_installations(space).installations


def test_links_are_made_refreshed_and_removed_and_files_stay(items: tuple[Installation, ...], tmp_path: Path) -> None:
    folder = tmp_path / "nextflow"
    samtools = next(item for item in items if item.name == "samtools")
    images = [tmp_path / "software"]
    links = link_for_nextflow(items, folder, images=images)
    assert (folder / SAMTOOLS).resolve() == samtools.image
    assert (len(links.linked), links.removed, links.kept) == (2, (), ())
    (folder / SAMTOOLS).unlink()
    (folder / SAMTOOLS).symlink_to(tmp_path / "software/gone")
    (folder / "other.img").symlink_to(tmp_path / "software/gone")
    (folder / "note.txt").symlink_to(tmp_path / "software/gone")
    # of somebody else, on a file system that is not mounted at the moment
    (folder / "own.img").symlink_to("/cvmfs/gone")
    assert link_for_nextflow(items, folder, images=images).removed == ("other.img",)
    assert (folder / "own.img").is_symlink()
    assert (folder / SAMTOOLS).resolve() == samtools.image
    (folder / SAMTOOLS).unlink()
    (folder / SAMTOOLS).write_text("pulled")
    assert link_for_nextflow(items, folder, images=images).kept == (SAMTOOLS,)
    assert (folder / SAMTOOLS).read_text() == "pulled"
    (folder / SAMTOOLS).unlink()
    (folder / SAMTOOLS).symlink_to("/images/own.sif")
    assert link_for_nextflow(items, folder, images=images).kept == (SAMTOOLS,)
    assert os.readlink(folder / SAMTOOLS) == "/images/own.sif"  # noqa: PTH115 - as it was written
    samtools.image.unlink()
    assert link_for_nextflow(items, folder, images=images).linked == ()
    assert (folder / "note.txt").is_symlink()


def test_a_folder_that_is_a_file_is_named(items: tuple[Installation, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SifmodError, match="can't be written to"):
        link_for_nextflow(items, tmp_path / "file", images=())


def test_the_profile_names_modules_and_the_test_runs_each(items: tuple[Installation, ...]) -> None:
    profile = read_yaml(snakemake_profile(items))
    assert isinstance(profile, dict)
    text = profile["config"][0]  # type: ignore[index] # a list, or the test fails
    assert isinstance(text, str)
    assert json.loads(text.removeprefix("modules=")) == {"Python": "Python/3.11-demo", "samtools": "samtools/1.9"}
    text = reframe_test(items)
    compile(text, "test.py", "exec")
    assert '"samtools/1.9": [["in-container", "cat", "/etc/os-release"], "NAME="],' in text


def test_the_newest_version_is_the_highest_number(tmp_path: Path) -> None:
    space = SoftwareSpace(software=tmp_path / "software", modules=tmp_path / "modules")
    for version in ("3.9", "3.11"):
        make_installation(space, f"Python/{version}", name="Python", version=version)
    assert "Python/3.11" in snakemake_profile(find_installations(space).installations)


@pytest.mark.parametrize("command", ["g++", "$(touch hacked)"])
def test_the_name_of_a_command_is_data(tmp_path: Path, command: str) -> None:
    """Whoever installed a module may have named its commands."""
    space = SoftwareSpace(software=tmp_path / "software", modules=tmp_path / "modules")
    make_installation(space, "x/1", python_version="", files=("bin/" + command, "demo.sif", "share/sifmod.json"))
    made: dict[str, dict[str, tuple[list[str], str]]] = {}
    begin = reframe_test(find_installations(space).installations).partition("@rfm")[0].replace("import reframe", "# ")
    exec(begin, made)  # noqa: S102 - what was written is Python
    ((words, pattern),) = made["MODULES"].values()
    assert (words[-1], command in words[3]) == (command, False)
    assert re.search(pattern, f"/usr/bin/{command}")
