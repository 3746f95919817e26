"""What advisories are compared with: a container and the node that it is on, or the node alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Optional


@dataclass(frozen=True)
class Subject:
    """The facts that conditions of advisories name. What is unknown is empty, and meets no condition."""

    today: date
    site: str = ""  # name of the site file, without folder and suffix
    runtimes: Mapping[str, str] = field(default_factory=dict)  # version of the container runtime, by its name
    tools: Mapping[str, str] = field(default_factory=dict)  # versions of commands of this host, by name
    drivers: Mapping[str, str] = field(default_factory=dict)  # version of the GPU driver of this host, by vendor
    images: tuple[str, ...] = ()  # file names and URI of the image
    digests: frozenset[str] = frozenset()  # its SHA-256 and its digest in a registry, as `sha256:...`
    labels: Mapping[str, str] = field(default_factory=dict)
    # name and version of each package in it; a name may have several versions
    packages: tuple[tuple[str, str], ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()  # name and version of its GPU and MPI libraries
    built: Optional[date] = None  # day on which it was built
    gpu: str = ""  # vendor of the GPUs that the container is for
    gpu_libraries: str = ""  # whose libraries programs use on these GPUs
