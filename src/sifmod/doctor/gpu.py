"""The GPUs of a host against an image: driver, architecture and vendor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.gpus import Gpu, HostGpus
from sifmod.image.gpustack import CUDA, ROCM, Torch, minimum_driver
from sifmod.image.inspection import Inspection
from sifmod.text.version import version_order

# The lowest compute capability that the libraries of a CUDA release run on (NVIDIA, "CUDA Toolkit Release Notes").
_LOWEST = {"13": "7.5", "12": "5.0", "11": "3.5", "10": "3.0", "9": "3.0", "8": "2.0"}

# Release of ROCm that a version of the amdgpu driver came with (repo.radeon.com/amdgpu), and their order: a driver is
# made for two releases in either direction (AMD, "User and kernel-space support matrix").
_AMDGPU = {
    "5.18.13": "5.4",
    "6.0.5": "5.5",
    "6.1.5": "5.6",
    "6.2.4": "5.7",
    "6.3.6": "6.0",
    "6.7.0": "6.1",
    "6.8.5": "6.2",
    "6.10.5": "6.3",
    "6.12.12": "6.4",
}
_ROCM_RELEASES = (
    "5.0",
    "5.1",
    "5.2",
    "5.3",
    "5.4",
    "5.5",
    "5.6",
    "5.7",
    "6.0",
    "6.1",
    "6.2",
    "6.3",
    "6.4",
    "7.0",
    "7.1",
)
_RELEASES_APART = 2


def check_gpus(hosts: Sequence[HostGpus], image: Inspection, *, vendor: str) -> Iterator[Finding]:
    """Give what is found of the host's GPUs for an image.

    Args:
        hosts: the GPUs of this host.
        image: what is in the image.
        vendor: whose GPUs the container is for: `nvidia`, `amd`, or empty for none.
    """
    vendor = vendor or _vendor_of(image)
    for host in hosts:
        if host.problem:
            severity = PROBLEM if host.vendor == vendor else NOTE
            yield Finding(
                severity,
                "GPU",
                f"the {host.vendor} GPUs of this host can't be asked: {host.problem}",
                "containers see no GPU" if severity == PROBLEM else "",
                "load or mend the driver, or look on a GPU node" if severity == PROBLEM else "",
            )
    usable = [host for host in hosts if not host.problem]
    if not vendor:
        if usable:
            yield Finding(NOTE, "GPU", "the image is not for GPUs: those of this host are not used")
        return
    mine = [host for host in usable if host.vendor == vendor]
    if not mine and not any(host.vendor == vendor for host in hosts):
        other = ", ".join(gpu.name for host in usable for gpu in host.gpus[:1])
        if other:
            what = f"the image is for {vendor} GPUs, and this host has {other}"
            yield Finding(PROBLEM, "GPU", what, "programs find no GPU", "take an image for the other vendor")
        else:
            what = f"the image is for {vendor} GPUs, and this host has none"
            yield Finding(NOTE, "GPU", what, "whether it fits can be told on a GPU node only", "srun ... sifmod doctor")
    for host in mine:
        yield from _driver(host, image)
        yield from _architectures(host, image)


def _vendor_of(image: Inspection) -> str:
    found = {one.name for one in image.components}
    return "nvidia" if CUDA in found else "amd" if ROCM in found else ""


def _driver(host: HostGpus, image: Inspection) -> Iterator[Finding]:
    name = CUDA if host.vendor == "nvidia" else ROCM
    versions = sorted({one.version for one in image.components if one.name == name}, key=version_order)
    if not versions:
        yield Finding(NOTE, "GPU driver", f"the image does not say which {name} it has", "nothing can be compared")
    elif not host.driver:
        yield Finding(NOTE, "GPU driver", "the host's driver does not say its version", "nothing can be compared")
    elif host.vendor == "nvidia":
        needed = minimum_driver(versions[-1])
        if not needed:
            yield Finding(NOTE, "GPU driver", f"driver {host.driver}; what CUDA {versions[-1]} needs is not known here")
        elif version_order(host.driver) < version_order(needed):
            yield Finding(
                PROBLEM,
                "GPU driver",
                f"the driver is {host.driver}, and CUDA {versions[-1]} of the image needs {needed} or later",
                "programs end with 'CUDA driver version is insufficient', or find no GPU",
                "take an image with an older CUDA, or have the driver updated",
            )
        else:
            yield Finding(OK, "GPU driver", f"driver {host.driver} runs CUDA {versions[-1]}, which needs {needed}")
    else:
        yield from _rocm(host.driver, versions[-1])


def _rocm(driver: str, rocm: str) -> Iterator[Finding]:
    of_driver = _AMDGPU.get(driver, "")
    release = ".".join(rocm.split(".")[:2])
    if not of_driver or release not in _ROCM_RELEASES:
        what = f"driver {driver} and ROCm {rocm}: whether they fit is not known here"
        yield Finding(NOTE, "GPU driver", what, "", "see AMD's user and kernel-space support matrix")
        return
    apart = abs(_ROCM_RELEASES.index(release) - _ROCM_RELEASES.index(of_driver))
    what = f"driver {driver} is that of ROCm {of_driver}, and the image has ROCm {rocm}"
    if apart > _RELEASES_APART:
        why = f"AMD supports {_RELEASES_APART} releases in either direction: programs may fail or be slow"
        yield Finding(WARNING, "GPU driver", what, why, f"take an image with a ROCm near {of_driver}")
    else:
        yield Finding(OK, "GPU driver", what)


def _architectures(host: HostGpus, image: Inspection) -> Iterator[Finding]:
    models = {gpu.name: gpu for gpu in host.gpus}
    for gpu in models.values():
        if not gpu.architecture:
            yield Finding(NOTE, "GPU model", f"{gpu.name}: its architecture is not known here")
            continue
        wrong = [*_below_cuda(gpu, image)] if host.vendor == "nvidia" else []
        for torch in image.torch:
            if torch.architectures and not runs_on(gpu.architecture, torch.architectures):
                wrong.append(_not_built_for(gpu, torch))
        yield from wrong
        if not wrong:
            known = any(torch.architectures for torch in image.torch)
            more = ", which PyTorch in the image was built for" if known else ""
            yield Finding(OK, "GPU model", f"{len(host.gpus)} x {gpu.name} ({gpu.architecture}){more}")


def _below_cuda(gpu: Gpu, image: Inspection) -> Iterator[Finding]:
    versions = sorted({one.version for one in image.components if one.name == CUDA}, key=version_order)
    lowest = _LOWEST.get(versions[-1].partition(".")[0], "") if versions else ""
    if lowest and version_order(gpu.architecture) < version_order(lowest):
        yield Finding(
            PROBLEM,
            "GPU model",
            f"{gpu.name} has compute capability {gpu.architecture}, and CUDA {versions[-1]} begins at {lowest}",
            "programs end with 'no kernel image is available for execution on the device'",
            "take an image with an older CUDA, or other nodes",
        )


def _not_built_for(gpu: Gpu, torch: Torch) -> Finding:
    built = " ".join(torch.architectures)
    return Finding(
        PROBLEM,
        "GPU model",
        f"{gpu.name} is {gpu.architecture}, and PyTorch {torch.version} in {torch.prefix} was built for {built}",
        "programs end with 'no kernel image is available for execution on the device'",
        "take an image whose PyTorch was built for it, such as PyTorch-legacy for K40, or other nodes",
    )


def runs_on(architecture: str, built: Sequence[str]) -> bool:
    """Return whether a GPU runs what was compiled for some architectures.

    Machine code for CUDA runs on its own major version from its minor version on, and intermediate code (`+PTX`) on
    everything newer (NVIDIA, "CUDA C++ Programming Guide", "Binary compatibility"). That for ROCm runs on its own
    architecture only.

    Args:
        architecture: of the GPU: `8.6`, or `gfx90a`.
        built: what was compiled for, such as `8.0`, `9.0+PTX` or `gfx90a`.
    """
    if architecture.startswith("gfx"):
        return architecture in {name.partition(":")[0] for name in built}
    major, minor = _numbers(architecture)
    for name in built:
        numbers = _numbers(name)
        if (major, minor) < numbers:
            continue
        if numbers[0] == major or name.endswith("+PTX"):
            return True
    return False


def _numbers(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (10**6, 0)
