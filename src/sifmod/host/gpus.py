"""The GPUs of this host and their driver, as the vendors' own tools tell them."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sifmod.host.command import ask

# Compute capability of models that drivers before 470 do not tell (NVIDIA, "CUDA GPU Compute Capability").
_CAPABILITIES = {
    "K20": "3.5",
    "K40": "3.5",
    "K80": "3.7",
    "M40": "5.2",
    "M60": "5.2",
    "P100": "6.0",
    "P40": "6.1",
    "P4": "6.1",
    "V100": "7.0",
    "T4": "7.5",
    "A100": "8.0",
    "A40": "8.6",
}

# Architecture of models that ROCm before 6.0 does not tell (AMD, "Accelerator and GPU hardware specifications").
_ARCHITECTURES = {
    "MI50": "gfx906",
    "MI60": "gfx906",
    "MI100": "gfx908",
    "MI210": "gfx90a",
    "MI250": "gfx90a",
    "MI300": "gfx942",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        name: model, as the driver names it.
        architecture: compute capability such as `8.0`, or `gfx90a`; empty where nothing tells it.
    """

    name: str
    architecture: str


@dataclass(frozen=True)
class HostGpus:
    """The GPUs of one vendor on this host.

    Attributes:
        vendor: `nvidia` or `amd`.
        driver: version of the kernel driver; empty where the tool does not tell it.
        gpus: those that this process may use.
        problem: why they can't be used, in the tool's own words; empty where they can.
    """

    vendor: str
    driver: str
    gpus: tuple[Gpu, ...]
    problem: str = ""


def host_gpus() -> tuple[HostGpus, ...]:
    """Return the GPUs of this host by vendor; none where there is neither a tool nor a device of one."""
    return (*_nvidia(), *_amd())


def _nvidia() -> tuple[HostGpus, ...]:
    tool = shutil.which("nvidia-smi")
    if not tool:
        if Path("/dev/nvidiactl").exists():
            return (HostGpus("nvidia", "", (), "there is /dev/nvidiactl, and no command nvidia-smi on PATH"),)
        return ()
    status, said = ask([tool, "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"])
    if status and "not a valid field" in said:
        status, said = ask([tool, "--query-gpu=name,driver_version", "--format=csv,noheader"])
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line.count(",") in (1, 2)]
    if status or not rows:
        return (HostGpus("nvidia", "", (), " ".join(said.split()) or f"nvidia-smi ended with exit status {status}"),)
    gpus = []
    for row in rows:
        told = row[2] if len(row) > 2 and re.fullmatch(r"\d+\.\d+", row[2]) else ""
        gpus.append(Gpu(row[0], told or _by_model(row[0], _CAPABILITIES)))
    driver = rows[0][1] if re.match(r"\d+\.", rows[0][1]) else ""
    return (HostGpus("nvidia", driver, tuple(gpus)),)


def _amd() -> tuple[HostGpus, ...]:
    tool = shutil.which("rocm-smi")
    if not tool:
        if Path("/dev/kfd").exists():
            return (HostGpus("amd", "", (), "there is /dev/kfd, and no command rocm-smi on PATH"),)
        return ()
    status, said = ask([tool, "--showproductname", "--showdriverversion"])
    found: dict[str, dict[str, str]] = {}
    for number, key, value in re.findall(r"^GPU\[(\d+)\]\s*:\s*([^:]+?)\s*:\s*(.*?)\s*$", said, re.MULTILINE):
        found.setdefault(number, {})[key.lower()] = value
    driver = re.search(r"^Driver version:\s*(\S+)", said, re.MULTILINE)
    if status or not found:
        words = " ".join(line for line in said.splitlines() if line.strip("= ") and "ROCm S" not in line)
        return (HostGpus("amd", driver[1] if driver else "", (), words or f"rocm-smi ended with exit status {status}"),)
    gpus = []
    for _number, facts in sorted(found.items(), key=lambda item: int(item[0])):
        name = facts.get("card series") or facts.get("card model") or "unknown"
        told = facts.get("gfx version", "")
        gpus.append(Gpu(name, told if re.fullmatch(r"gfx\w+", told) else _by_model(name, _ARCHITECTURES)))
    return (HostGpus("amd", driver[1] if driver else "", tuple(gpus)),)


def _by_model(name: str, known: dict[str, str]) -> str:
    return next((known[model] for model in known if re.search(rf"\b{model}(?!\d)", name)), "")
