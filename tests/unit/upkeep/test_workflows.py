"""Installed modules in the words of workflow managers."""

from __future__ import annotations

import json
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
        ("docker://debian:12", ["debian-12.img", "docker.io-library-debian-12.img"]),
        (
            f"docker://example.org:5000/a/b:1@{DIGEST}",
            [
                "example.org-5000-a-b-1.img",
                f"example.org-5000-a-b@sha256-{'a' * 64}.img",
                f"example.org-5000-a-b-1@sha256-{'a' * 64}.img",
            ],
        ),
        ("Dockerfile (abc)", []),
        (f"docker://example.org/{'a' * 300}:1", []),
        ("https://example.org/x.sif", []),
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
    links = link_for_nextflow(items, folder)
    assert (folder / SAMTOOLS).resolve() == samtools.image
    assert (len(links.linked), links.removed, links.kept) == (2, (), ())
    (folder / SAMTOOLS).unlink()
    (folder / SAMTOOLS).symlink_to("/gone")
    (folder / "other.img").symlink_to("/gone")
    (folder / "note.txt").symlink_to("/gone")
    assert link_for_nextflow(items, folder).removed == ("other.img",)
    assert (folder / SAMTOOLS).resolve() == samtools.image
    (folder / SAMTOOLS).unlink()
    (folder / SAMTOOLS).write_text("pulled")
    assert link_for_nextflow(items, folder).kept == (SAMTOOLS,)
    assert (folder / SAMTOOLS).read_text() == "pulled"
    samtools.image.unlink()
    assert link_for_nextflow(items, folder).linked == ()
    assert (folder / "note.txt").is_symlink()


def test_a_folder_that_is_a_file_is_named(items: tuple[Installation, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SifmodError, match="can't be written to"):
        link_for_nextflow(items, tmp_path / "file")


def test_the_profile_names_modules_and_the_test_runs_each(items: tuple[Installation, ...]) -> None:
    profile = read_yaml(snakemake_profile(items))
    assert isinstance(profile, dict)
    text = profile["config"][0]  # type: ignore[index] # a list, or the test fails
    assert isinstance(text, str)
    assert json.loads(text.removeprefix("modules=")) == {"Python": "Python/3.11-demo", "samtools": "samtools/1.9"}
    text = reframe_test(items)
    compile(text, "test.py", "exec")
    assert '"samtools/1.9": [["in-container", "cat", "/etc/os-release"], "NAME="],' in text
