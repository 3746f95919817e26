"""Wrappers whose commands the image lacks are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sifmod.artefact import Artefact
from sifmod.container.bind import Bind
from sifmod.container.gpu import VENDORS, Vendor
from sifmod.container.spec import ContainerSpec
from sifmod.errors import ParameterError
from sifmod.install.wrappers import check_wrappers
from sifmod.render.templates import render
from sifmod.site.settings import Site

from .. import imagetrees
from ..support import CONDA, a_site, a_spec


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return an image with commands in its default PATH, in conda and in a folder of its own."""
    top = imagetrees.linux(tmp_path / "image")
    for path in ("/usr/bin/gmx", "/opt/miniconda3/envs/pytorch/bin/torchrun", "/opt/tool/bin/own"):
        imagetrees.write(top, path)
    imagetrees.link(top, "/usr/local/bin/elsewhere", "/not/in/the/image")
    return top


def a_container(*wrappers: str, **changes: Any) -> ContainerSpec:
    return a_spec(**{"wrappers": wrappers, "python": CONDA, **changes})


@pytest.mark.parametrize(
    "wrapper", ["gmx", "torchrun", "elsewhere", "python", "python3.11", "pip3", "get-master", "conda-python-simple"]
)
def test_a_command_of_the_image_is_taken(image: Path, wrapper: str) -> None:
    check_wrappers(a_container(wrapper), a_site(), image)


@pytest.mark.parametrize(
    ("spec", "wrapper", "nearest"),
    [
        (a_container("torchrum"), "torchrum", "'torchrun'"),
        (a_container("python", "gmxx", python=None, venv=""), "python", ""),
        (a_container("gmxx", python=None, venv=""), "gmxx", "'gmx'"),
        (a_container("own"), "own", ""),
    ],
)
def test_a_missing_command_names_the_nearest(image: Path, spec: ContainerSpec, wrapper: str, nearest: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_wrappers(spec, a_site(), image)
    assert (caught.value.parameter, caught.value.value) == ("wrappers", wrapper)
    assert nearest in str(caught.value)


PATH = {"PATH": "/opt/tool/bin:/usr/bin"}


def test_the_commands_of_a_map_are_looked_for(image: Path) -> None:
    commands = {"own": ("/opt/tool/bin/own", "-q"), "mdrun": ("gmx", "mdrun")}
    spec = a_container("own", "mdrun", wrapper_commands=commands)
    check_wrappers(spec, a_site(), image)
    for wrapped, nearest in (
        ({**commands, "own": ("/opt/tool/bin/onw",)}, "'own'"),
        ({**commands, "mdrun": ("gmxx", "mdrun")}, "'gmx'"),
    ):
        with pytest.raises(ParameterError, match="'wrappers'") as caught:
            check_wrappers(replace(spec, wrapper_commands=wrapped), a_site(), image)
        assert nearest in str(caught.value)
    bound = replace(
        spec, wrapper_commands={"own": ("/data/own",), "mdrun": commands["mdrun"]}, binds=(Bind("/x", "/data"),)
    )
    check_wrappers(bound, a_site(), image)


@pytest.mark.parametrize(
    ("spec", "site"),
    [
        (a_container("own", container_env=PATH), a_site()),
        (a_container("own"), a_site(container_env=PATH)),
        (a_container("other", container_env={"PATH": "/opt/tool/bin:$PATH"}), a_site()),
        (a_container("other", binds=(Bind("/x", "/usr/local"),)), a_site()),
        (a_container("other"), a_site(optional_binds=(Bind("/x", "/usr/bin"),))),
        (a_container("other", pip_requirements=("other",)), a_site()),
        (a_container("other", launch="run"), a_site()),
    ],
    ids=["PATH", "PATH of the site", "unknown PATH", "bind", "bind of the site", "pip", "entry point"],
)
def test_what_the_image_does_not_tell_is_not_refused(image: Path, spec: ContainerSpec, site: Site) -> None:
    check_wrappers(spec, site, image)


@pytest.mark.parametrize(
    "line",
    [
        'if [ -d /x ]; then PATH="/x/bin:$PATH"; fi',
        "if [ -e /opt/setup.sh ]; then . /opt/setup.sh; fi",
        "PATH=$(compute)",
        "export A=1 PATH=/x/bin",
        "source /opt/setup.sh",
        ". /opt/setup.sh",
        'eval "$(/opt/setup)"',
    ],
)
def test_a_path_that_a_script_of_the_image_computes_is_unknown(image: Path, line: str) -> None:
    imagetrees.write(image, "/.singularity.d/env/99-z-own.sh", f"#!/bin/sh\n# PATH\n{line}\n")
    check_wrappers(a_container("other"), a_site(), image)


@pytest.mark.parametrize("name", ["10-docker2singularity.sh", "99-z-own.sh"])
def test_a_folder_that_a_script_of_the_image_adds_counts(image: Path, name: str) -> None:
    lines = [
        "export TOP=/opt/tool",
        '  export PATH="$TOP/bin:$PATH";',
        'export WITH_CONDA="source /x/bin/activate x"',
        "",
    ]
    imagetrees.write(image, f"/.singularity.d/env/{name}", "\n".join(lines))
    imagetrees.write(image, "/.singularity.d/env/99-base.sh", 'PATH="$(computed)"\n')
    if name.startswith("10-"):
        check_wrappers(a_container("own", "gmx"), a_site(), image)
        with pytest.raises(ParameterError):
            check_wrappers(a_container("other"), a_site(), image)
    else:  # variables of such scripts are not evaluated
        check_wrappers(a_container("other"), a_site(), image)


def test_what_can_t_be_known_is_not_refused(image: Path, tmp_path: Path) -> None:
    bound = (Bind("/usr/bin/srun-tool", "/usr/bin/srun-tool"),)
    check_wrappers(a_container("srun-tool"), a_site(optional_binds=bound), image)
    imagetrees.link(image, "/opt/elsewhere", "/not/in/the/image")
    path = {"PATH": "/opt/elsewhere/bin:/usr/bin"}
    check_wrappers(a_container("other", container_env=path), a_site(), image)
    spec = a_container("other", installdir=str(tmp_path / "installed"))
    with pytest.raises(ParameterError, match="pip_requirements"):
        check_wrappers(spec, a_site(), image)
    (tmp_path / "installed/user-software").mkdir(parents=True)
    check_wrappers(spec, a_site(), image)
    (tmp_path / "x.sif").write_bytes(b"damaged")
    check_wrappers(a_container("other"), a_site(), tmp_path / "x.sif")


@pytest.mark.parametrize("vendor", list(VENDORS.values()), ids=list(VENDORS))
def test_the_runtime_brings_commands_with_the_gpu_libraries_of_the_host(image: Path, vendor: Vendor) -> None:
    check_wrappers(a_container(vendor.tool, gpu=vendor.key, gpu_libraries="host"), a_site(), image)
    with pytest.raises(ParameterError):
        check_wrappers(a_container(vendor.tool, gpu=vendor.key, gpu_libraries="image"), a_site(), image)


def test_commands_of_pip_requirements_are_looked_for_once_they_are_there(image: Path, tmp_path: Path) -> None:
    spec = a_container("say-hello", pip_requirements=("greeting",))
    imagetrees.write(tmp_path, f"/new/venv/{spec.venv}/bin/say-hello")
    check_wrappers(spec, a_site(), image, user_software=tmp_path / "new")
    with pytest.raises(ParameterError, match="perhaps you meant 'say-hello'"):
        check_wrappers(replace(spec, wrappers=("say-helo",)), a_site(), image, user_software=tmp_path / "new")


def test_the_look_for_commands_renders_no_wrapper(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []

    def recorded(spec: ContainerSpec, site: Site) -> tuple[Artefact, ...]:
        artefacts = render(spec, site)
        rendered.extend(str(artefact.path) for artefact in artefacts)
        return artefacts

    monkeypatch.setattr("sifmod.install.wrappers.render", recorded)
    check_wrappers(
        a_container("gmx", "mine", wrapper_commands={"mine": ("get-master",)}, python=None, venv=""), a_site(), image
    )
    assert "runscripts/get-master" in rendered
    assert {"bin/gmx", "bin/mine"}.isdisjoint(rendered)
