"""Check the release of the container runtime: what it needs, and what it does differently from others."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping

from sifmod.container.runtime import APPTAINER
from sifmod.errors import RuntimeMissingError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.command import ask
from sifmod.host.runtime import ContainerRuntime, Release, find_runtime
from sifmod.site.settings import Site
from sifmod.text.version import version_order

# What mounts packed files by FUSE, and the first release that has threads and keeps many decompressed blocks.
_MOUNTS = "squashfuse_ll"
_WITH_THREADS = "0.2"


def check_runtime(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings on the runtime's release; none if there is no runtime, which the check of the site names."""
    try:
        runtime = find_runtime(site)
    except RuntimeMissingError:
        return
    release = runtime.release
    oldest = APPTAINER.oldest.get(release.name, "")
    if oldest and version_order(release.number) < version_order(oldest):
        yield Finding(
            PROBLEM,
            "runtime",
            f"{release.name} {release.number} is too old: {oldest} or later is required",
            "packed user software can't be mounted",
            "load or install a newer one, and name it as runtime in the site file",
        )
    yield from _mounting(runtime)
    if release.requires_ecl:
        yield from _execution_control(runtime, release)
    if release.leaves_out_variables and environ.get("APPTAINER_NOENV"):
        yield Finding(
            WARNING,
            "runtime",
            f"APPTAINER_NOENV is '{environ['APPTAINER_NOENV']}'",
            "containers do not get these variables of the shell, not even those that a module sets",
            "unset APPTAINER_NOENV",
        )


def _mounting(runtime: ContainerRuntime) -> Iterator[Finding]:
    """Say what mounts packed user software, and whether a newer one would be faster; nothing if none is found."""
    # the runtime looks beside its own programs first
    folder = runtime.configuration.get("LIBEXECDIR", "")
    places = [f"{folder}/{runtime.release.name.partition('-')[0]}/bin"] if folder else []
    path = shutil.which(_MOUNTS, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath)]))
    version = re.search(r"\bsquashfuse (\d+(?:\.\d+)+)", ask([path, "--help"])[1]) if path else None
    if version and version_order(version[1]) < version_order(_WITH_THREADS):
        yield Finding(
            NOTE,
            "packed files",
            f"'{path}' {version[1]}, which mounts them, keeps one decompressed block and has one thread",
            "imports from packed user software take longer than they need to",
            f"install squashfuse 0.5 or later, or put its {_MOUNTS} first on the PATH of the runtime",
        )
    elif version:
        yield Finding(OK, "packed files", f"mounted by '{path}' {version[1]}")


def _execution_control(runtime: ContainerRuntime, release: Release) -> Iterator[Finding]:
    # where the release looks for it: config_add_def ECL_FILE in its mlocal/checks/project-post.chk
    folder = runtime.configuration.get("SINGULARITY_CONFDIR", "")
    file = f"{folder}/ecl.toml"
    if folder and not os.path.exists(file):  # noqa: PTH110 - without an error where a folder above is not ours
        yield Finding(
            PROBLEM,
            "runtime",
            f"'{file}' does not exist, and {release.name} {release.number} starts no SIF without it",
            "no container starts",
            "ask an administrator to install it again; the one of the package has: activated = false",
        )
