"""Dockerfiles: which files are some."""

from __future__ import annotations

import pytest

from sifmod.container.dockerfile import is_dockerfile


@pytest.mark.parametrize(
    "name",
    [
        "Dockerfile",
        "Containerfile",
        "dockerfile",
        "nbody-12.4.1.Dockerfile",
        "nbody.Containerfile",
        "Dockerfile.nbody",
        "Dockerfile.nbody-efficient",
    ],
)
def test_a_dockerfile_is_known_by_its_name(name: str) -> None:
    assert is_dockerfile(name)


@pytest.mark.parametrize(
    "name",
    ["image.def", "Definition.nbody", "Singularity", ".dockerignore", "Dockerfile.dockerignore", "MyDockerfile", ""],
)
def test_other_files_are_none(name: str) -> None:
    assert not is_dockerfile(name)
