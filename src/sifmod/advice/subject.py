"""What advisories are compared with: a container and the node that it is on, or the node alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Optional


@dataclass(frozen=True)
class Subject:
    """The facts that conditions of advisories name. What is unknown is empty, and meets no condition.

    Attributes:
        today: the present day.
        site: name of the site file, without folder and suffix.
        runtimes: version of the container runtime, by its name.
        tools: versions of commands of this host, by name.
        drivers: version of the GPU driver of this host, by vendor.
        images: file names and URI of the image.
        digests: its SHA-256 and its digest in a registry, as `sha256:...`.
        labels: its labels.
        packages: name and version of each package in it; a name may have several versions.
        libraries: name and version of its GPU and MPI libraries.
        built: day on which it was built.
        gpu: vendor of the GPUs that the container is for.
        gpu_libraries: whose libraries programs use on these GPUs.
    """

    today: date
    site: str = ""
    runtimes: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    digests: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[tuple[str, str], ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    built: Optional[date] = None
    gpu: str = ""
    gpu_libraries: str = ""
