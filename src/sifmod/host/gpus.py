"""The GPUs of this host and their driver, as the vendors' tools report them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sifmod.container.gpu import VENDORS, Vendor
from sifmod.host.command import ask


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    name: str  # model, as the driver names it
    architecture: str  # such as `8.0` (compute capability) or `gfx90a`; empty if unknown


@dataclass(frozen=True)
class HostGpus:
    """The GPUs of one vendor on this host."""

    vendor: str  # key of the vendor in `VENDORS`
    driver: str  # version of the kernel driver; empty if the tool does not report it
    gpus: tuple[Gpu, ...]  # GPUs that this process may use
    problem: str = ""  # why they can't be used, as the tool reports it; empty if they can


def host_gpus() -> tuple[HostGpus, ...]:
    """Return the GPUs of this host by vendor, leaving out vendors without a tool and a device."""
    return tuple(gpu for vendor in VENDORS.values() for gpu in _gpus_of(vendor))


def described_gpus(driver: str, model: str) -> tuple[HostGpus, ...]:
    """Return what `host_gpus` would on nodes with a driver and a model of GPUs, empty if that is not known.

    These are GPUs of the vendor that has the model, and of any vendor if none is known to have it. The model may be
    written as Slurm has it: `a100`, `nvidia_a100-sxm4-80gb`, `a100_3g.20gb`.
    """
    model = model.replace("_", " ")
    of_vendors = {vendor.key: _by_model(model, vendor.models) for vendor in VENDORS.values()}
    having = [key for key, architecture in of_vendors.items() if architecture] or [*of_vendors]
    return tuple(HostGpus(key, driver, (Gpu(model, of_vendors[key]),) if model else ()) for key in having)


def _gpus_of(vendor: Vendor) -> Iterator[HostGpus]:
    tool = shutil.which(vendor.tool) if vendor.tool else None
    if not tool:
        if Path(vendor.device).exists():
            lacks = f"the command {vendor.tool} is not on PATH" if vendor.tool else "no command reports more"
            yield HostGpus(vendor.key, "", (), f"{vendor.device} exists, but {lacks}")
        return
    status, said = 0, ""
    for query in vendor.queries:
        status, said = ask([tool, *query])
        if not status or not vendor.too_old or vendor.too_old not in said:
            break
    driver, models = vendor.read(said)
    if status or not models:
        # the tool frames its messages with lines of "="
        words = " ".join(word for line in said.splitlines() if line[:1] != "=" for word in line.split())
        yield HostGpus(vendor.key, "", (), words or f"{vendor.tool} failed with exit status {status}")
        return
    gpus = (Gpu(model, told or _by_model(model, vendor.models)) for model, told in models)
    yield HostGpus(vendor.key, driver, tuple(gpus))


def _by_model(name: str, known: Mapping[str, str]) -> str:
    return next((known[model] for model in known if re.search(rf"\b{model}(?!\d)", name, re.I)), "")
