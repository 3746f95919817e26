"""An advisory: a known problem, what it applies to, and what to do about it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import Optional

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from sifmod.advice.subject import Subject

Ranges = Mapping[str, SpecifierSet]


@dataclass(frozen=True)
class Match:
    """What an advisory applies to: all conditions that it names must hold. An empty condition always holds."""

    images: tuple[str, ...] = ()  # shell patterns, one of which matches the file name or the URI of the image
    digests: tuple[str, ...] = ()  # SHA-256 of images, or their digests in a registry, as `sha256:...`
    labels: Mapping[str, str] = field(default_factory=dict)  # shell patterns for labels of the image, by name
    # versions of packages in the image, by name: of its Pythons, its distribution and its `/.sbom.json`
    packages: Ranges = field(default_factory=dict)
    # versions of the GPU and MPI libraries in the image, by the name that `sifmod inspect` prints
    libraries: Ranges = field(default_factory=dict)
    built_from: Optional[date] = None  # first day on which the image was built
    built_before: Optional[date] = None  # day before which the image was built
    gpu: str = ""  # vendor of the GPUs that the container is for
    gpu_libraries: str = ""  # whose libraries programs use on these GPUs
    sites: tuple[str, ...] = ()  # names of site files
    runtimes: Ranges = field(default_factory=dict)  # versions of the container runtime, by its name
    tools: Ranges = field(default_factory=dict)  # versions of commands of the host, by name
    drivers: Ranges = field(default_factory=dict)  # versions of the GPU driver, by vendor
    since: Optional[date] = None  # first day on which the advisory applies
    until: Optional[date] = None  # last day on which the advisory applies

    @property
    def is_about_containers(self) -> bool:
        """Whether a condition is about a container; the others are about the node, whatever runs there."""
        names = (self.images, self.digests, self.labels, self.packages, self.libraries, self.gpu, self.gpu_libraries)
        return any(names) or bool(self.built_from or self.built_before)

    def holds(self, subject: Subject) -> Optional[bool]:
        """Return whether all conditions hold; None if that depends on a GPU driver, and the subject's is unknown."""
        if not all(self._conditions(subject)):
            return False
        if self.drivers and not subject.drivers:
            return None
        return _has_one(self.drivers, subject.drivers.items())

    def _conditions(self, subject: Subject) -> Iterator[bool]:
        """Yield for each condition except the driver whether it holds; what is unknown does not."""
        yield not self.images or any(fnmatchcase(name, one) for name in subject.images for one in self.images)
        yield not self.digests or not subject.digests.isdisjoint(self.digests)
        yield all(fnmatchcase(subject.labels.get(name, ""), one) for name, one in self.labels.items())
        packages = [(canonicalize_name(name), version) for name, version in subject.packages] if self.packages else []
        yield _has_all({canonicalize_name(name): one for name, one in self.packages.items()}, packages)
        yield _has_all(self.libraries, subject.libraries)
        built = subject.built
        yield not self.built_from or (built is not None and built >= self.built_from)
        yield not self.built_before or (built is not None and built < self.built_before)
        yield self.gpu in ("", subject.gpu)
        yield self.gpu_libraries in ("", subject.gpu_libraries)
        yield not self.sites or subject.site in self.sites
        yield _has_one(self.runtimes, subject.runtimes.items())
        yield _has_all(self.tools, subject.tools.items())
        yield not self.since or subject.today >= self.since
        yield not self.until or subject.today <= self.until


@dataclass(frozen=True)
class Advisory:
    """A known problem."""

    identifier: str  # its name, which later files use to replace or withdraw it
    severity: str  # `note`, `warning` or `problem`, as of a finding. A problem is shown when the module is loaded
    text: str  # what goes wrong
    sources: tuple[str, ...]  # addresses of where it was reported, or is described
    remedy: str  # what to do about it, in words
    # the remedy for machines: the values of variables in the container; None for one that must not be set
    variables: Mapping[str, Optional[str]] = field(default_factory=dict)
    match: Match = field(default_factory=Match)

    @property
    def sentences(self) -> str:
        """The whole advisory on one line."""
        return f"{self.text} {self.remedy} See {' and '.join(self.sources)}"

    @property
    def actions(self) -> str:
        """The remedy for machines, in words; empty if there is none."""
        wanted = (f"unset {name}" if value is None else f"{name}={value}" for name, value in self.variables.items())
        return ", ".join(wanted)

    def is_remedied(self, settings: Mapping[str, str]) -> bool:
        """Return whether variables that a module sets in its container have the values of the remedy, if it has any."""
        return bool(self.variables) and all(settings.get(name) == value for name, value in self.variables.items())


def is_in_range(version: str, wanted: SpecifierSet) -> bool:
    """Return whether a version is in a range; of one that PEP 440 does not know, the numbers at its beginning count."""
    numbers = re.match(r"(\d+(\.\d+)*)?", version)
    for text in (version, numbers[0] if numbers else ""):
        with contextlib.suppress(ValueError):  # a number with thousands of digits is one too
            return wanted.contains(Version(text), prereleases=True)
    return False


def _has_all(wanted: Ranges, versions: Iterable[tuple[str, str]]) -> bool:
    """Return whether there is a version in each range."""
    found = list(versions) if wanted else []
    return all(
        any(name == one and is_in_range(version, versions) for one, version in found)
        for name, versions in wanted.items()
    )


def _has_one(wanted: Ranges, versions: Iterable[tuple[str, str]]) -> bool:
    """Return whether there is a version in one of the ranges, or there are no ranges."""
    return not wanted or any(name in wanted and is_in_range(version, wanted[name]) for name, version in versions)
