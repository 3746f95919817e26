"""Which advisories are about a container and a node, and what `eb` prints about a container to be installed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Optional

from sifmod.advice.advisory import Advisory
from sifmod.advice.subject import Subject
from sifmod.container.spec import ContainerSpec
from sifmod.finding import NOTE
from sifmod.host.runtime import ContainerRuntime, Release, release_here
from sifmod.host.versions import HostVersions, host_versions
from sifmod.image.inspection import Inspection, contents_of
from sifmod.install.manifest import Manifest
from sifmod.site.advisories import load_advisories
from sifmod.site.settings import Site
from sifmod.text.printable import few, one_line

_NO_DRIVERS: Mapping[str, str] = MappingProxyType({})


def advised_versions(site: Site, release: Release) -> HostVersions:
    """Return the versions of this host that the site's advisories ask for; other tools are not started."""
    return host_versions(release, sorted({tool for one in load_advisories(site) for tool in one.match.tools}))


def node_subject(site: Site, versions: HostVersions, drivers: Mapping[str, str] = _NO_DRIVERS) -> Subject:
    """Return the facts about this node; without drivers for `eb`, which may run on another node than programs."""
    return Subject(
        today=datetime.now(tz=timezone.utc).date(),
        site=PurePosixPath(site.name).stem,
        runtimes=versions.runtimes,
        tools=versions.tools,
        drivers=drivers,
    )


def container_subject(
    node: Subject,
    image: Optional[Inspection],
    *,
    names: Iterable[str],
    digests: Iterable[str] = (),
    gpu: str = "",
    gpu_libraries: str = "",
) -> Subject:
    """Return the facts about a container on a node; of an image that can't be read, None, only names and digests.

    Names are its file names and URI, digests its SHA-256 and its digest in a registry; empty ones are left out.
    """
    known = replace(
        node,
        images=tuple(dict.fromkeys(filter(None, names))),
        digests=frozenset(f"sha256:{digest[-64:]}" for digest in digests if digest),
        gpu=gpu,
        gpu_libraries=gpu_libraries if gpu else "",
    )
    if image is None:
        return known
    pythons = (pair for python in image.pythons for pair in (*python.packages, *python.conda_packages))
    return replace(
        known,
        labels=image.labels,
        packages=(*pythons, *image.packages),
        libraries=tuple((one.name, one.version) for one in image.components),
        built=date(*time.gmtime(image.created)[:3]) if 0 < image.created < 1 << 35 else None,
    )


def about(advisories: Iterable[Advisory], subject: Subject) -> Iterator[Advisory]:
    """Yield the advisories that apply to a container, and those that do with some GPU drivers, if none is known."""
    for advisory in advisories:
        if advisory.match.is_about_containers and advisory.match.holds(subject) is not False:
            yield advisory


def about_node(advisories: Iterable[Advisory], node: Subject) -> Iterator[Advisory]:
    """Yield the advisories that apply to a node, whatever runs there."""
    for advisory in advisories:
        if not advisory.match.is_about_containers and advisory.match.holds(node):
            yield advisory


def known_problems(
    spec: ContainerSpec,
    site: Site,
    versions: HostVersions,
    image: Optional[Inspection],
    *,
    names: Iterable[str],
    digests: Iterable[str],
) -> tuple[Advisory, ...]:
    """Return the advisories that are about a container, also those that depend on a GPU driver."""
    advisories = load_advisories(site)
    node = node_subject(site, versions)
    gpu, libraries = spec.gpu, spec.gpu_libraries
    subject = container_subject(node, image, names=names, digests=digests, gpu=gpu, gpu_libraries=libraries)
    return tuple(about(advisories, subject))


def told_by_module(advisories: Iterable[Advisory]) -> tuple[Advisory, ...]:
    """Return the advisories that a module tells; those for some GPU drivers `doctor` shows, because nodes differ."""
    return tuple(one for one in advisories if not one.match.drivers)


def problems_of_installed(spec: ContainerSpec, site: Site, manifest: Manifest) -> tuple[Advisory, ...]:
    """Return the advisories that the module of an installed container tells; its image, or a copy, is read again."""
    own = Path(spec.installdir, manifest.image)
    return told_by_module(
        known_problems(
            spec,
            site,
            advised_versions(site, release_here(site)),
            contents_of(own if manifest.image in manifest.files else Path(manifest.image_source)),
            names=(manifest.image, Path(manifest.image_source).name, manifest.image_origin),
            digests=(manifest.image_sha256, manifest.image_digest),
        )
    )


def tell(
    advisory: Advisory, settings: Mapping[str, str], *, say: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    """Print an advisory, as a warning unless it is a note or the module's settings are its remedy."""
    text = f"advisory {advisory.identifier}: {advisory.sentences}"
    if advisory.is_remedied(settings):
        say(f"{text}; the module does so: {advisory.actions}")
    elif advisory.severity == NOTE:
        say(text)
    else:
        warn(text)


def tell_of_gpus(
    spec: ContainerSpec,
    image: Optional[Inspection],
    runtime: ContainerRuntime,
    *,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Print whose GPU libraries come first, and what keeps GPUs out of the container."""
    if spec.host_libraries_first and image and image.drivers:
        drivers = few([one_line(path) for path in image.drivers])
        say(f"the image has driver libraries of its own, so the host's come first: {drivers}")
    if spec.vendor and not spec.runtime_gpu and runtime.has_minimal_dev:
        warn("; ".join(spec.vendor.kept_out))
