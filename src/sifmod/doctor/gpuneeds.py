"""What programs need for GPUs besides driver and architecture: devices, libraries, and variables that name files."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.container.gpu import Vendor
from sifmod.finding import NOTE, PROBLEM, WARNING, Finding
from sifmod.image.gpustack import IBVERBS
from sifmod.image.inspection import Inspection
from sifmod.text.printable import few, one_line

_INFINIBAND = "/sys/class/infiniband"


@dataclass(frozen=True)
class Scene:
    """A node with GPUs, or a container for them on a node."""

    vendor: Vendor
    environ: Mapping[str, str]
    image: Optional[Inspection] = None  # None for the node alone
    lacks: Callable[[str], bool] = lambda _path: False  # whether a path is missing in the container


def check_gpu_needs(scene: Scene) -> Iterator[Finding]:
    """Yield a finding for each need that is not met: the node's without an image, else the container's."""
    checks = (_own_drivers, _no_verbs, _lost_paths) if scene.image else (_missing_devices, _closed_devices)
    for check in checks:
        yield from check(scene)


def _missing_devices(scene: Scene) -> Iterator[Finding]:
    for device, command in scene.vendor.made_devices.items():
        if not os.path.exists(device):  # noqa: PTH110 - without an error where a folder above is not ours
            yield Finding(
                PROBLEM,
                "GPU devices",
                f"this host has no {device}",
                "programs find no GPU in containers until a program on the host makes it",
                f"as root, at each boot: {command}",
            )


def _closed_devices(scene: Scene) -> Iterator[Finding]:
    """Yield devices if none of a kind opens; a job of Slurm has its own GPUs only, and perhaps none."""
    if "SLURM_JOB_ID" in scene.environ and not {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS"} & {*scene.environ}:
        return
    for pattern in (scene.vendor.device, scene.vendor.gpus):
        devices = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern is absolute
        # asks the cgroup of the job too, and starts no device
        if devices and not any(os.access(device, os.R_OK | os.W_OK) for device in devices):
            yield Finding(
                PROBLEM,
                "GPU devices",
                f"this user can open none of {few(devices)}",
                "programs find no GPU, although tools may list them",
                f"join the group of the devices, often render or video: ls -l {devices[0]}",
            )


def _own_drivers(scene: Scene) -> Iterator[Finding]:
    if scene.image and scene.image.drivers and scene.vendor.driver_library:
        yield Finding(
            NOTE,
            "driver libraries",
            f"the image has some of its own: {few([one_line(path) for path in scene.image.drivers])}",
            "they fit one driver only; where they come before the host's, programs find no GPU",
            "leave PREPEND_LD_LIBRARY_PATH as the module sets it, or use an image without them",
        )


def _no_verbs(scene: Scene) -> Iterator[Finding]:
    components = {one.name for one in scene.image.components} if scene.image else set()
    adapters = [Path(path).name for path in sorted(glob.glob(f"{_INFINIBAND}/*"))]  # noqa: PTH207 - the pattern is absolute
    library = scene.vendor.collectives
    if adapters and library in components and IBVERBS not in components:
        yield Finding(
            WARNING,
            "InfiniBand",
            f"this host has {few(adapters)}, and the image has {library} but no libibverbs",
            f"{library} uses TCP between nodes, which is much slower, unless bind paths bring that",
            "use an image with rdma-core (Debian: libibverbs1 and ibverbs-providers)",
        )


def _lost_paths(scene: Scene) -> Iterator[Finding]:
    for name in (*scene.vendor.paths, "CC"):
        names = (f"APPTAINERENV_{name}", f"SINGULARITYENV_{name}", name)
        value = next(filter(None, map(scene.environ.get, names)), "")
        path = value.partition(" ")[0] if name == "CC" else value  # a command, which may have options
        if path.startswith("/") and scene.lacks(path):
            yield Finding(
                WARNING,
                "variables",
                f"{name} of this shell names '{one_line(path)}', which the container lacks",
                f"programs in it that read {name} fail; it may replace the image's own value",
                f"unset {name}, or unload the host's module that sets it",
            )
