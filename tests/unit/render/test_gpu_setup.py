"""The site's way to give containers GPUs. The device file that nodes with a driver have is a stand-in: /dev/null."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from sifmod.container.gpu import VENDORS
from sifmod.container.spec import ContainerSpec
from sifmod.render.sitemodule import render_site_module

from ..support import a_site
from .running import Load, Wrapper

SWITCHES = ("_NV", "_NVCCLI", "_ROCM")
CDI = {"nvidia": "nvidia.com/gpu=all", "amd": "amd.com/gpu=all"}


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: replace(vendor, device="/dev/null") for key, vendor in VENDORS.items()}
    monkeypatch.setattr("sifmod.container.spec.VENDORS", MappingProxyType(rows))


def switched_on(variables: dict[str, str]) -> set[str]:
    names = {f"{prefix}{name}": name for prefix in ("SINGULARITY", "APPTAINER") for name in SWITCHES}
    return {names[name] for name in variables if name in names and variables[name] == "1"}


@pytest.mark.parametrize(
    ("gpu", "setup", "switch"),
    [
        ("nvidia", "", "_NV"),
        ("nvidia", "nv", "_NV"),
        ("nvidia", "rocm", "_NV"),
        ("nvidia", "nvccli", "_NVCCLI"),
        ("amd", "nvccli", "_ROCM"),
        ("amd", "rocm", "_ROCM"),
    ],
)
def test_module_and_wrapper_set_the_variable_of_the_way(
    load: Load, wrapper: Wrapper, installed: ContainerSpec, gpu: str, setup: str, switch: str
) -> None:
    spec, site = replace(installed, gpu=gpu), a_site(gpu_setup=setup)
    for syntax in ("Lua", "Tcl"):
        assert switched_on(load(spec, site, syntax=syntax)) == {switch}
    call = wrapper("python", spec=spec, site=site)
    assert switched_on(call["env"]) == {switch}
    assert "--device" not in call["argv"]


@pytest.mark.parametrize("gpu", CDI)
@pytest.mark.parametrize(
    ("release", "has_device"),
    [
        ("apptainer version 1.4.5", False),
        ("apptainer version 1.5.0-rc.1", True),
        ("apptainer version 1.10.2-1.el9", True),
        ("apptainer version 2.0", True),
        ("singularity-ce version 4.5.1", False),
        ("apptainer version 99999999999999999999.1", False),
        ("nonsense", False),
    ],
)
def test_wrappers_name_the_device_where_the_runtime_takes_it(
    load: Load, wrapper: Wrapper, installed: ContainerSpec, gpu: str, release: str, has_device: bool
) -> None:
    spec, site = replace(installed, gpu=gpu), a_site(gpu_setup="cdi")
    assert switched_on(load(spec, site)) == set()
    wrapper.fake.answer(release=release)
    call = wrapper("python", "x", spec=spec, site=site)
    if has_device:
        assert call["argv"][1:3] == ["--device", CDI[gpu]]
        assert switched_on(call["env"]) == set()
    else:
        assert "--device" not in call["argv"]
        assert switched_on(call["env"]) == {VENDORS[gpu].variable}


def test_tasks_that_need_the_option_have_their_own_containers(wrapper: Wrapper, installed: ContainerSpec) -> None:
    wrapper.fake.answer(release="apptainer version 1.5.1")
    step = {"JOB_ID": "1", "STEP_ID": "0", "GTIDS": "0,1"}
    environ = {"SIFMOD_SHARE_CONTAINER": "1", "SLURMD_NODENAME": "node"}
    environ.update({f"SLURM_{name}": value for name, value in step.items()})
    said = []
    for task in ("0", "1"):
        more = {"SLURM_PROCID": task, "SLURM_LOCALID": task}
        spec, site = replace(installed, gpu="nvidia"), a_site(gpu_setup="cdi")
        done = wrapper.run("python", spec=spec, site=site, environ={**environ, **more})
        assert done.returncode == 0, done.stderr
        assert wrapper.fake.calls[-1]["argv"][1:3] == ["--device", CDI["nvidia"]]
        said.append(done.stderr)
    why = "GPUs of this site need the option --device nvidia.com/gpu=all"
    assert said == [f"python: no shared container, so each task has its own: {why}\n", ""]


def test_no_gpus_no_device(wrapper: Wrapper, installed: ContainerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper.fake.answer(release="apptainer version 1.5.1")
    site = a_site(gpu_setup="cdi")
    call = wrapper("python", spec=replace(installed, gpu="amd", gpu_libraries="image"), site=site)
    assert ("--device" in call["argv"], switched_on(call["env"])) == (False, set())
    rows = {key: replace(vendor, device="/dev/none") for key, vendor in VENDORS.items()}
    monkeypatch.setattr("sifmod.container.spec.VENDORS", MappingProxyType(rows))
    call = wrapper("python", spec=replace(installed, gpu="amd"), site=site)
    assert ("--device" in call["argv"], switched_on(call["env"])) == (False, set())


def test_the_module_of_a_site_says_what_to_write() -> None:
    text = render_site_module("site", a_site(gpu="nvidia", gpu_setup="cdi"))["site.lua"]
    assert "--device nvidia.com/gpu=all, for which no variable stands" in text
    assert "--nvccli (NVIDIA)" in render_site_module("site", a_site(gpu="nvidia", gpu_setup="nvccli"))["site.lua"]
