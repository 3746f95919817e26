"""Compare the GPUs of a host with an image: driver, architecture and vendor."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from typing import Optional

from sifmod.container.gpu import LIBRARIES, VENDORS, Vendor, vendor_of
from sifmod.container.runtime import library_order
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.gpus import Gpu, HostGpus
from sifmod.host.runtime import Release
from sifmod.image.gpustack import Torch, newest
from sifmod.image.inspection import Inspection
from sifmod.image.system import glibc_problem
from sifmod.text.version import version_order


def check_gpus(
    hosts: Sequence[HostGpus],
    image: Inspection,
    *,
    vendor: Optional[str],
    libraries: str = "",
    uses_compat: bool = True,
    release: Release = Release(),  # noqa: B008 - it is frozen
    minimal_dev: bool = False,
) -> Iterator[Finding]:
    """Yield the findings on the host's GPUs for an image, whose compat libraries may be used or not.

    With `minimal_dev`, containers see few of the host's devices.
    """
    says_none = vendor == ""
    if vendor is None:
        vendor = vendor_of(image.stacks)
    for host in hosts:
        if host.problem:
            severity = PROBLEM if host.vendor == vendor else NOTE
            yield Finding(
                severity,
                "GPU",
                f"can't query the {host.vendor} GPUs of this host: {host.problem}",
                "containers see no GPU" if severity == PROBLEM else "",
                "load or repair the driver, or try on a GPU node" if severity == PROBLEM else "",
            )
    usable = [host for host in hosts if not host.problem]
    if not vendor:
        if usable:
            what = "the container is for no GPUs (gpu = '')" if says_none else "the image is not for GPUs"
            yield Finding(NOTE, "GPU", f"{what}: no GPUs are used")
        return
    mine = [host for host in usable if host.vendor == vendor]
    if not mine and not any(host.vendor == vendor for host in hosts):
        other = ", ".join(gpu.name for host in usable for gpu in host.gpus[:1])
        if other:
            what = f"the image is for {vendor} GPUs, not for {other}"
            yield Finding(PROBLEM, "GPU", what, "programs find no GPU", "use an image for these GPUs, or other nodes")
        else:
            what = f"the image is for {vendor} GPUs, and this host has none"
            yield Finding(NOTE, "GPU", what, "only a GPU node can show whether it fits", "srun ... sifmod doctor")
    known = VENDORS[vendor]
    libraries = libraries or known.libraries
    yield _libraries(known, libraries, release, image)
    if minimal_dev and libraries != LIBRARIES[0]:
        yield Finding(WARNING, "GPU", *known.kept_out)
    version = newest(image.components, known.stack)
    allowed = uses_compat and libraries == LIBRARIES[0]
    for host in mine:
        yield from _driver(host, known, version, *_compat(image, host, known, allowed=allowed))
        yield from _architectures(host, known, version, image)


def _libraries(vendor: Vendor, libraries: str, release: Release, image: Inspection) -> Finding:
    """Say whose libraries programs use."""
    topic, what = "GPU libraries", f"gpu_libraries is '{libraries}'"
    if libraries == "host" and vendor.driver_library and image.drivers == ():
        what += f": --{vendor.option} brings the host's, and the image has none of its own"
        order = library_order(release.name, release.number)
        host = os.confstr("CS_GNU_LIBC_VERSION") or ""
        if order is None or order.fills or not glibc_problem(host.partition(" ")[2], image.libc):
            return Finding(OK, topic, what)
        folder = f"/usr/lib/{platform.machine()}-linux-gnu" if image.os_id in ("debian", "ubuntu") else "/usr/lib64"
        return Finding(
            WARNING,
            topic,
            f"{what}; the host has {host}, the image {image.libc}",
            f"{release.name} {release.number} searches the host's first: OpenGL, and import cv2, may end with 'GLIBC_"
            f"{host.partition(' ')[2]} not found'",
            "; ".join(f"export {name}ENV_PREPEND_LD_LIBRARY_PATH={folder}" for name in ("SINGULARITY", "APPTAINER")),
        )
    if libraries == "host":
        what += f": --{vendor.option} brings the host's, which come before the image's"
        if release.puts_image_libraries_first:
            why = f"with {release.name} {release.number} only if PREPEND_LD_LIBRARY_PATH is set, as modules do"
            remedy = "for a module of an earlier sifmod: eb --rebuild --module-only"
            return Finding(NOTE, topic, what, why, remedy)
        return Finding(OK, topic, what)
    what += f": --{vendor.option} is off, and programs use the image's"
    if not vendor.driver_library:
        return Finding(OK, topic, what)
    why = f"they find no GPU unless a bind path brings {vendor.driver_library} of the host's driver"
    return Finding(WARNING, topic, what, why, "set gpu_libraries to 'host' in the easyconfig or the site file")


def _compat(image: Inspection, host: HostGpus, vendor: Vendor, *, allowed: bool) -> tuple[str, str]:
    """Return the version of the image's compat libraries that come first at each start; if none do, why."""
    if not image.compat:
        return "", "the image has no compat libraries"
    if not allowed:
        return "", "its compat libraries are switched off"
    models = [gpu.name for gpu in host.gpus]
    reasons = [vendor.compat_problem(one.version, driver=host.driver, models=models) for one in image.compat]
    version = next((one.version for one, reason in zip(image.compat, reasons) if not reason), "")
    return version, "" if version else f"its compat libraries {image.compat[0].version} are not used: {reasons[0]}"


def _driver(host: HostGpus, vendor: Vendor, version: str, compat: str, why_not: str) -> Iterator[Finding]:
    """Compare the host's driver, and compat libraries that come before its own, with the stack in the image."""
    stack, oldest = f"{vendor.stack} {version}", vendor.oldest_driver(version)
    if not version:
        what = f"the {vendor.stack} version of the image is unknown"
        yield Finding(NOTE, "GPU driver", what, "nothing can be compared")
    elif not host.driver:
        yield Finding(NOTE, "GPU driver", "the version of the host's driver is unknown", "nothing can be compared")
    elif vendor.driver_releases:
        yield from _near_driver(host.driver, vendor, version)
    elif not oldest:
        yield Finding(NOTE, "GPU driver", f"driver {host.driver}; which driver {stack} needs is unknown")
    elif version_order(host.driver) >= version_order(oldest):
        first = f"; the image's compat libraries {compat} come first" if compat else ""
        yield Finding(OK, "GPU driver", f"fits: driver {host.driver} runs {stack}, which needs {oldest}{first}")
    elif compat and version_order(compat) >= version_order(oldest):
        what = f"fits by compat: {stack} needs {oldest}, and beside driver {host.driver} the image's compat libraries"
        yield Finding(OK, "GPU driver", f"{what} {compat} come first")
    else:
        why_not = why_not or f"its compat libraries {compat} are older than that"
        yield Finding(
            PROBLEM,
            "GPU driver",
            f"does not fit, because the driver is {host.driver}, and {stack} of the image needs {oldest} or later; "
            f"{why_not}",
            f"programs fail with '{vendor.driver_error}', or find no GPU",
            f"use an image with an older {vendor.stack}{_or_compat(host, vendor, oldest)}, or have the driver updated",
        )


def _or_compat(host: HostGpus, vendor: Vendor, oldest: str) -> str:
    """Return in words which compat libraries would make up for the host's driver; empty if none would."""
    if vendor.compat_problem(oldest, driver=host.driver, models=[gpu.name for gpu in host.gpus]):
        return ""
    return f" or with compat libraries {oldest} or later ('sifmod help use-old-gpus')"


def _near_driver(driver: str, vendor: Vendor, version: str) -> Iterator[Finding]:
    is_near = vendor.is_near(driver, version)
    if is_near is None:
        what = f"driver {driver} and {vendor.stack} {version}: whether they are compatible is unknown"
        yield Finding(NOTE, "GPU driver", what, "", f"see {vendor.name}'s user and kernel-space support matrix")
        return
    of_driver = f"{vendor.stack} {vendor.driver_releases[driver]}"
    what = f"driver {driver} belongs to {of_driver}, and the image has {vendor.stack} {version}"
    if not is_near:
        oldest = vendor.oldest_releases.get(vendor.driver_releases[driver])
        back = (
            f"{vendor.stack} {oldest} and later" if oldest else f"{vendor.releases_apart} releases in either direction"
        )
        why = f"{vendor.name} supports {back}: programs may fail or be slow"
        remedy = f"use an image with a {vendor.stack} near {vendor.driver_releases[driver]}"
        yield Finding(WARNING, "GPU driver", what, why, remedy)
    else:
        yield Finding(OK, "GPU driver", what)


def _architectures(host: HostGpus, vendor: Vendor, version: str, image: Inspection) -> Iterator[Finding]:
    models = {gpu.name: gpu for gpu in host.gpus}
    for gpu in models.values():
        if not gpu.architecture:
            yield Finding(NOTE, "GPU model", f"{gpu.name}: its architecture is unknown")
            continue
        wrong = [*_below_lowest(gpu, vendor, version)]
        for torch in image.torch:
            if torch.architectures and not runs_on(gpu.architecture, torch.architectures):
                wrong.append(_not_built_for(gpu, torch))
        yield from wrong
        if not wrong:
            known = any(torch.architectures for torch in image.torch)
            more = ", which PyTorch in the image was built for" if known else ""
            yield Finding(OK, "GPU model", f"{len(host.gpus)} x {gpu.name} ({gpu.architecture}){more}")


def _below_lowest(gpu: Gpu, vendor: Vendor, version: str) -> Iterator[Finding]:
    lowest = vendor.lowest_architecture(version)
    if lowest and version_order(gpu.architecture) < version_order(lowest):
        yield Finding(
            PROBLEM,
            "GPU model",
            f"{gpu.name} is {gpu.architecture}, and {vendor.stack} {version} requires {lowest} or later",
            "programs fail with 'no kernel image is available for execution on the device'",
            f"use an image with an older {vendor.stack}, or other nodes",
        )


def _not_built_for(gpu: Gpu, torch: Torch) -> Finding:
    built = " ".join(torch.architectures)
    return Finding(
        PROBLEM,
        "GPU model",
        f"{gpu.name} is {gpu.architecture}, and PyTorch {torch.version} in {torch.prefix} was built for {built}",
        "programs fail with 'no kernel image is available for execution on the device'",
        "use an image whose PyTorch was built for it, such as PyTorch-legacy for K40, or other nodes",
    )


def runs_on(architecture: str, built: Sequence[str]) -> bool:
    """Return whether a GPU runs code compiled for some architectures.

    If architectures are numbers, machine code runs on its own major version from its minor version on, and
    intermediate code (`+PTX`) on everything newer (NVIDIA, "CUDA C++ Programming Guide", "Binary compatibility").
    Machine code for an architecture with a name runs on that one only.
    """
    if not re.match(r"\d+\.\d", architecture):
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
