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


Words = Iterator[tuple[str, ...]]


def check_gpu_needs(scene: Scene) -> Iterator[Finding]:
    """Yield a finding for each need that is not met: the node's without an image, else the container's."""
    for needs_image, severity, topic, find, *texts in _NEEDS:
        if needs_image == bool(scene.image):
            for words in find(scene):
                yield Finding(severity, topic, *(text.format(*words) for text in texts))


def _missing_devices(scene: Scene) -> Words:
    for device, command in scene.vendor.made_devices.items():
        if not os.path.exists(device):  # noqa: PTH110 - without an error where a folder above is not ours
            yield device, command


def _closed_devices(scene: Scene) -> Words:
    """Yield devices if none of a kind opens; a job of Slurm has its own GPUs only, and perhaps none."""
    if "SLURM_JOB_ID" in scene.environ and not {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS"} & {*scene.environ}:
        return
    for pattern in (scene.vendor.device, scene.vendor.gpus):
        devices = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern is absolute
        # asks the cgroup of the job too, and starts no device
        if devices and not any(os.access(device, os.R_OK | os.W_OK) for device in devices):
            yield few(devices), devices[0]


def _own_drivers(scene: Scene) -> Words:
    if scene.image and scene.image.drivers and scene.vendor.driver_library:
        yield (few([one_line(path) for path in scene.image.drivers]),)


def _no_verbs(scene: Scene) -> Words:
    components = {one.name for one in scene.image.components} if scene.image else set()
    adapters = [Path(path).name for path in sorted(glob.glob(f"{_INFINIBAND}/*"))]  # noqa: PTH207 - the pattern is absolute
    if adapters and scene.vendor.collectives in components and IBVERBS not in components:
        yield few(adapters), scene.vendor.collectives


def _lost_paths(scene: Scene) -> Words:
    for name in (*scene.vendor.paths, "CC"):
        names = (f"APPTAINERENV_{name}", f"SINGULARITYENV_{name}", name)
        value = next(filter(None, map(scene.environ.get, names)), "")
        path = value.partition(" ")[0] if name == "CC" else value  # a command, which may have options
        if path.startswith("/") and scene.lacks(path):
            yield name, one_line(path)


# Whether it concerns a container and not the node alone, severity, topic, the check, and what, why and remedy, with
# places for the words that the check yields for each finding.
_NEEDS: tuple[tuple[bool, str, str, Callable[[Scene], Words], str, str, str], ...] = (
    (
        *(False, PROBLEM, "GPU devices", _missing_devices),
        "this host has no {0}",
        "programs find no GPU in containers until a program on the host makes it",
        "as root, at each boot: {1}",
    ),
    (
        *(False, PROBLEM, "GPU devices", _closed_devices),
        "this user can open none of {0}",
        "programs find no GPU, although tools may list them",
        "join the group of the devices, often render or video: ls -l {1}",
    ),
    (
        *(True, NOTE, "driver libraries", _own_drivers),
        "the image has some of its own: {0}",
        "they fit one driver only; where they come before the host's, programs find no GPU",
        "leave PREPEND_LD_LIBRARY_PATH as the module sets it, or use an image without them",
    ),
    (
        *(True, WARNING, "InfiniBand", _no_verbs),
        "this host has {0}, and the image has {1} but no libibverbs",
        "{1} uses TCP between nodes, which is much slower, unless bind paths bring that",
        "use an image with rdma-core (Debian: libibverbs1 and ibverbs-providers)",
    ),
    (
        *(True, WARNING, "variables", _lost_paths),
        "{0} of this shell names '{1}', which the container lacks",
        "programs in it that read {0} fail; it may replace the image's own value",
        "unset {0}, or unload the host's module that sets it",
    ),
)
