"""Proposals for easyconfigs, from what was found."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sifmod.easyconfig.proposal import propose
from sifmod.easyconfig.text import easyconfig_text
from sifmod.errors import ImageError, ParameterError
from sifmod.fetch.uri import ImageUri
from sifmod.image.gpustack import Component, Torch
from sifmod.image.inspection import Inspection, inspect_image
from sifmod.image.python import ImagePython
from sifmod.site.settings import Site

from ..imagetrees import distribution, link, write

CONDA = ImagePython(
    prefix="/opt/miniconda3/envs/pytorch",
    kind="conda",
    version="3.10.13",
    packages=(("numpy", "1.26.4"), ("torch", "2.2.0+rocm5.6"), ("torchvision", "0.17.0"), ("xformers", "0.0.24")),
    conda_root="/opt/miniconda3",
    conda_env="pytorch",
    commands=("accelerate", "python3", "torchrun"),
    makes_venvs=True,
)
USR = ImagePython(prefix="/usr", kind="system", version="3.11.2", packages=(("pip", "23.0"),), makes_venvs=True)
VENV = replace(USR, prefix="/opt/venv", kind="venv", packages=(("tool", "1.5.2"),))
IMAGE = Inspection(
    path="images/lumi.sif",
    kind="SIF",
    created=1_710_500_000,
    os="SUSE Linux",
    pythons=(CONDA, USR),
    default_python=CONDA.prefix,
    components=(Component("ROCm", "5.6", "torch"), Component("ROCm", "5.6.1", "/opt/rocm/.info/version")),
    torch=(Torch(CONDA.prefix, "2.2.0+rocm5.6", "", "5.6.3", (), ""),),
)
SITE = Site(name="here")


def parameters(image: Inspection = IMAGE, **more: Any) -> Mapping[str, Any]:
    return propose(image, SITE, **more).parameters


def test_the_house_s_pattern() -> None:
    proposal = propose(IMAGE, SITE, sha256="ab" * 32)
    assert proposal.file_name == "PyTorch-2.2.0-rocm-5.6.1-python-3.10-singularity-20240315.eb"
    found = dict(proposal.parameters)
    assert " ".join(found["description"].split()) == (
        "PyTorch 2.2.0 for AMD GPUs with torchvision 0.17.0, xformers 0.0.24 and numpy 1.26.4 on Python 3.10, ROCm "
        "5.6.1 and SUSE Linux, in a container."
    )
    assert found["whatis"] == [
        "Description: PyTorch, a machine learning package",
        "Keywords: PyTorch, torch, torchvision, xformers, numpy, ROCm, container",
    ]
    assert (found["sources"], found["checksums"]) == (["lumi.sif"], ["ab" * 32])
    assert (found["gpu"], found["conda_env"], found["venv"]) == ("amd", "pytorch", "pytorch")
    assert "conda_root" not in found
    assert found["wrappers"] == ["python", "pip", "accelerate", "torchrun"]
    assert found["expected_packages"] == {
        "torch": "2.2.0+rocm5.6",
        "torchvision": "0.17.0",
        "xformers": "0.0.24",
        "numpy": "1.26.4",
    }
    assert proposal.notes == ()


def test_a_virtual_environment_the_system_s_python_and_another_conda() -> None:
    venv = parameters(replace(IMAGE, pythons=(VENV,), default_python="/opt/venv", components=(), torch=()))
    assert (venv["name"], venv["version"], venv["versionsuffix"]) == ("Python", "3.11", "-singularity-20240315")
    assert (venv["python_prefix"], venv["venv"], venv["gpu"]) == ("/opt/venv", "python", "")
    assert "wrappers" not in venv
    assert "expected_packages" not in venv
    python = replace(CONDA, prefix="/opt/conda", conda_root="/opt/conda", conda_env="base")
    found = parameters(replace(IMAGE, pythons=(python,), default_python="/opt/conda"))
    assert (found["conda_root"], found["conda_env"], found["venv"]) == ("/opt/conda", "base", "pytorch")


def test_a_name_and_a_version_of_ones_own() -> None:
    image = replace(IMAGE, pythons=(VENV,), default_python="/opt/venv", components=(), torch=())
    found = parameters(image, name="tool")
    assert (found["name"], found["version"], found["versionsuffix"]) == (
        "tool",
        "1.5.2",
        "-python-3.11-singularity-20240315",
    )
    assert found["expected_packages"] == {"tool": "1.5.2"}
    assert parameters(image, name="other", version="7")["version"] == "7"


# As docker/Dockerfile of these projects lay them out: Ubuntu's Python, packages and commands in /usr/local.
@pytest.mark.parametrize(
    ("uri", "package", "version", "torch"),
    [
        ("docker://vllm/vllm-openai:v0.33.0", "vllm", "0.33.0", "cuda = '13.0'"),
        ("docker://vllm/vllm-openai-rocm:v0.33.0", "vllm", "0.33.0+rocm100", "hip = '10.0.51831'"),
        ("docker://lmsysorg/sglang:v0.5.23", "sglang", "0.5.23", "cuda = '13.0'"),
        ("docker://own/pytorch:1", "vllm", "0.33.0", "cuda = '13.0'"),
    ],
)
def test_images_of_servers_of_models(tmp_path: Path, uri: str, package: str, version: str, torch: str) -> None:
    site = "/usr/local/lib/python3.12/dist-packages"
    for path in ("bin/python3.10", "bin/python3.12", "lib/python3.10/os.py", "local/bin/torchrun"):
        write(tmp_path, f"/usr/{path}")
    for path in (f"/usr/local/bin/{package}", "/usr/lib/python3.12/venv/__init__.py", "/bin/sh", "/etc/os-release"):
        write(tmp_path, path)
    link(tmp_path, "/usr/bin/python3", "/etc/alternatives/python3")
    link(tmp_path, "/etc/alternatives/python3", "/usr/bin/python3.12")
    write(tmp_path, f"{site}/torch/version.py", f"{torch}\n")
    for name, number in ((package, version), ("torch", "2.14.0"), ("pip", "25.0")):
        distribution(tmp_path, site, name, number)
    image = replace(inspect_image(tmp_path), kind="SIF")
    found = parameters(image, uri=ImageUri.parse(uri), origin=uri)
    module = "PyTorch" if "pytorch" in uri else {"vllm": "vLLM", "sglang": "SGLang"}[package]
    assert (found["name"], found["venv"], found["moduleclass"]) == (module, module.lower(), "devel")
    assert (found["gpu"], found["python_prefix"]) == ("amd" if "hip" in torch else "nvidia", "/usr")
    assert {*found["wrappers"]} == {"python", "pip", "torchrun", package}
    assert found["expected_packages"] == {"torch": "2.14.0", package: version}
    assert found["description"].count(package) == (module == "PyTorch")


@pytest.mark.parametrize(("key", "value"), [("name", "a/b"), ("name", "-x"), ("version", "1 0"), ("version", "../1")])
def test_a_name_that_can_not_be_is_refused(key: str, value: str) -> None:
    with pytest.raises(ParameterError, match=f"'{key}'"):
        parameters(IMAGE, **{key: value})


def test_a_file_name_that_can_not_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="'sources'"):
        parameters(replace(IMAGE, path="images/-x.sif"))


def test_a_uri_takes_the_place_of_the_file_and_is_noted_without_a_digest() -> None:
    uri = ImageUri.parse(f"docker://docker.io/own/tool@sha256:{'a' * 64}")
    found = parameters(
        replace(IMAGE, pythons=(USR,), default_python="/usr", torch=(), components=()), uri=uri, name="x"
    )
    assert found["image_uri"] == uri.text
    assert found["homepage"] == "https://hub.docker.com/r/own/tool"
    assert not {"sources", "checksums"} & set(found)
    uri = ImageUri.parse("oras://example.org/tool:1")
    (note,) = propose(IMAGE, SITE, uri=uri).notes
    assert "no digest" in note


def test_without_a_python_or_virtual_environments_the_writer_is_told() -> None:
    proposal = propose(replace(IMAGE, pythons=(), default_python="", torch=()), SITE, name="tool")
    assert proposal.parameters["wrappers"] == []
    assert "name the commands of the image in wrappers" in proposal.notes[0]
    assert not {"venv", "python_prefix", "conda_env"} & set(proposal.parameters)
    proposal = propose(replace(IMAGE, pythons=(replace(USR, makes_venvs=False),), default_python="/usr"), SITE)
    assert "venv" not in proposal.parameters
    assert "lacks venv" in proposal.notes[0]
    image = replace(IMAGE, pythons=(replace(CONDA, makes_venvs=False),))
    proposal = propose(image, SITE, like=SIMILAR)
    assert not {"venv", "pip_requirements"} & set(proposal.parameters)
    assert any("pip_requirements of the other easyconfig was left out" in note for note in proposal.notes)


def test_a_site_with_other_gpus_is_noted() -> None:
    assert "has others" in propose(IMAGE, replace(SITE, gpu="nvidia")).notes[0]
    assert propose(IMAGE, replace(SITE, gpu="amd")).notes == ()


def test_text_of_the_image_can_not_break_out() -> None:
    image = replace(IMAGE, components=(Component("ROCm", "5.6/../../x", "$ROCM_VERSION"),))
    assert parameters(image)["versionsuffix"] == "-rocm-5.6-python-3.10-singularity-20240315"
    python = replace(CONDA, packages=(("torch", "../../2.2"),))
    with pytest.raises(ParameterError, match="'version'"):
        propose(replace(image, pythons=(python,)), SITE)
    labels = {
        "org.opencontainers.image.description": 'x"""\nimport os\x1b[31m\ud800',
        "org.opencontainers.image.url": "javascript:x",
    }
    found = parameters(replace(IMAGE, labels=labels), name="own")
    assert found["description"].endswith('in a container. x""" import os [31m?')
    assert found["homepage"] == "https://apptainer.org/"


SIMILAR = {
    "easyblock": "ContainerImage",
    "name": "PyTorch",
    "version": "1.0",
    "conda_env": "pytorch",
    "venv": "ours",
    "binds": ["/appl"],
    "container_env": {"X": "1"},
    "features": ["fabric"],
    "wrappers": ["python", "torchrun", "ray"],
    "pip_requirements": ["torchmetrics"],
    "expected_packages": {"torch": "1.0"},
    "checksums": ["old"],
    "share_container": True,
    "user_commands": False,
}


def test_what_still_applies_is_taken_over() -> None:
    proposal = propose(IMAGE, SITE, like=SIMILAR)
    found = proposal.parameters
    taken = ("venv", "binds", "container_env", "features", "wrappers", "pip_requirements")
    for key in (*taken, "share_container", "user_commands"):
        assert found[key] == SIMILAR[key]
    text = easyconfig_text(found, comments=[])
    assert "\nshare_container = True\n" in text
    assert "\nuser_commands = False\n" in text
    assert (found["version"], found["expected_packages"]["torch"]) == ("2.2.0", "2.2.0+rocm5.6")
    assert proposal.notes == ("check that the image has these wrappers, not found beside its Python: ray",)
    labels = {"org.opencontainers.image.description": "made of %(name)s"}
    like = {"pip_requirements": ["tool==%(version)s"], "container_env": {"RELEASE": "%(version)s"}}
    found = propose(replace(IMAGE, labels=labels), SITE, like=like).parameters
    assert found["pip_requirements"] == like["pip_requirements"]
    assert found["container_env"] == like["container_env"]
    assert found["description"].endswith("made of %%(name)s")
    assert parameters(like={"python_prefix": "/usr"})["python_prefix"] == "/usr"
    proposal = propose(IMAGE, SITE, like={"conda_root": "/opt/conda", "conda_env": "base"})
    assert proposal.parameters["conda_env"] == "pytorch"
    assert "no Python in /opt/conda" in proposal.notes[0]


@pytest.mark.parametrize("wrong", [{"name": ["x"]}, {"binds": "x"}, {"wrappers": [1]}, {"venv": 7}, {"conda_env": [1]}])
def test_nonsense_in_the_similar_one_is_refused_or_ignored(wrong: dict[str, object]) -> None:
    with contextlib.suppress(ParameterError):
        propose(IMAGE, SITE, like=wrong)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (replace(IMAGE, kind="SquashFS"), "only a SIF can be installed: build one with 'singularity build"),
        (replace(IMAGE, unread="its root file system is ext3"), "ext3"),
    ],
)
def test_what_can_not_be_installed_is_refused(image: Inspection, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        propose(image, SITE)
