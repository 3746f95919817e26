"""What GPU programs need besides driver and architecture. Devices and adapters are stand-ins: files in a folder."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.standins_gpu import write_devices

from sifmod.container.bind import Bind
from sifmod.container.gpu import VENDORS
from sifmod.doctor import examination, gpuneeds
from sifmod.doctor.examination import Target, examine
from sifmod.doctor.gpuneeds import Scene
from sifmod.eb.space import SoftwareSpace
from sifmod.finding import NOTE, PROBLEM, WARNING

from ..imagetrees import linux, write
from ..support import a_site, settings_of

UVM = "nvidia-modprobe -u -c=0"


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A node with two cards and InfiniBand, and an image with NCCL and a compiler."""
    dev = write_devices(tmp_path / "dev", "nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "infiniband/mlx5_0")
    row = replace(
        VENDORS["nvidia"],
        device=f"{dev}/nvidiactl",
        gpus=f"{dev}/nvidia[0-9]*",
        made_devices={f"{dev}/{Path(path).name}": made for path, made in VENDORS["nvidia"].made_devices.items()},
    )
    monkeypatch.setattr(examination, "VENDORS", MappingProxyType({"nvidia": row}))
    monkeypatch.setattr(examination, "host_gpus", lambda: ())
    monkeypatch.setattr(gpuneeds, "_INFINIBAND", f"{dev}/infiniband")
    for name in ("CC", *row.paths, "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"):
        monkeypatch.delenv(name, raising=False)
    version = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n"
    linux(tmp_path / "image")
    for path, text in (("usr/include/nccl.h", version), ("usr/bin/gcc", ""), ("usr/lib64/libibverbs.so.1.14.44.0", "")):
        write(tmp_path, f"image/{path}", text)
    yield dev
    for device in dev.glob("nvidia*"):
        device.chmod(0o600)


def found(dev: Path, space: SoftwareSpace) -> list[tuple[str, str, str]]:
    site = a_site(binds=(Bind("/opt/cuda-12", "/opt/bound"),))
    target = Target(image=dev.parent / "image", gpu="nvidia")
    topics = ("GPU devices", "driver libraries", "InfiniBand", "variables")
    every = [one for one in examine(target, settings_of(site), space) if one.topic in topics]
    assert all(one.why and one.remedy for one in every)
    return [(one.severity, one.what, one.remedy) for one in every]


def test_a_node_that_has_all_is_fine_and_one_without_nvidia_uvm_is_not(dev: Path, space: SoftwareSpace) -> None:
    assert found(dev, space) == []
    (dev / "nvidia-uvm").unlink()
    assert found(dev, space) == [(PROBLEM, f"this host has no {dev}/nvidia-uvm", f"as root, at each boot: {UVM}")]
    (dev / "nvidiactl").unlink()  # a node without a card
    assert found(dev, space) == []


def test_driver_libraries_of_the_image_are_named(dev: Path, space: SoftwareSpace) -> None:
    write(dev.parent, "image/usr/lib64/libcuda.so.1")
    ((severity, what, _remedy),) = found(dev, space)
    assert (severity, what) == (NOTE, "the image has some of its own: /usr/lib64/libcuda.so.1")


def test_devices_that_do_not_open(dev: Path, space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    (dev / "nvidia0").chmod(0)  # that of another job
    assert found(dev, space) == []
    (dev / "nvidia1").chmod(0)
    ((severity, what, _remedy),) = found(dev, space)
    assert (severity, what) == (PROBLEM, f"this user can open none of {dev}/nvidia0, {dev}/nvidia1")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert found(dev, space) == []
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    assert len(found(dev, space)) == 1


def test_infiniband_needs_libibverbs_in_an_image_with_nccl(dev: Path, space: SoftwareSpace) -> None:
    (dev.parent / "image/usr/lib64/libibverbs.so.1.14.44.0").rename(dev.parent / "image/libibverbs.so.1.14.44.0")
    ((severity, what, _remedy),) = found(dev, space)
    assert (severity, what) == (WARNING, "this host has mlx5_0, and the image has NCCL but no libibverbs")
    (dev / "infiniband/mlx5_0").unlink()
    assert found(dev, space) == []


@pytest.mark.parametrize(
    ("name", "value", "missing"),
    [
        ("CUDA_HOME", "/opt/cuda-12", "/opt/cuda-12"),
        ("CUDA_PATH", "/opt/bound/sub", ""),
        ("CUDA_PATH", "/usr/lib64", ""),
        ("CC", "/usr/bin/gcc -m64", ""),
        ("CC", "/opt/cray/bin/cc -g", "/opt/cray/bin/cc"),
        ("CC", "icc", ""),
        ("NCCL_TOPO_FILE", "/etc/nccl/topo.xml", "/etc/nccl/topo.xml"),
        ("SINGULARITYENV_CUDA_HOME", "/gone", "/gone"),
    ],
)
def test_variables_that_name_a_path_missing_in_the_container(
    dev: Path, space: SoftwareSpace, monkeypatch: pytest.MonkeyPatch, name: str, value: str, missing: str
) -> None:
    monkeypatch.setenv(name, value)
    plain = name.replace("SINGULARITYENV_", "")
    what = f"{plain} of this shell names '{missing}', which the container lacks"
    assert [what for _severity, what, _remedy in found(dev, space)] == ([what] if missing else [])


def test_each_device_has_its_command() -> None:
    assert VENDORS["nvidia"].made_devices == {"/dev/nvidia-uvm": UVM}
    assert list(gpuneeds.check_gpu_needs(Scene(VENDORS["amd"], {**os.environ}))) == []
