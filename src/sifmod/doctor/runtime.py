"""Check the release of the container runtime: what it needs, and what it does differently from others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from sifmod.errors import RuntimeMissingError
from sifmod.finding import NOTE, PROBLEM, WARNING, Finding
from sifmod.host.runtime import ContainerRuntime, Release, find_runtime
from sifmod.site.settings import Site
from sifmod.text.version import version_order

# The first releases with the bind option `image-src`, which mounts packed user software (their CHANGELOGs).
_OLDEST = {"apptainer": "1.0", "singularity": "3.6", "singularity-ce": "3.6"}

# Where CDI looks for descriptions of devices, unless --cdi-dirs names others (its SPEC.md).
_CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))


def check_runtime(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings on the runtime's release; none if there is no runtime, which the check of the site names.

    Args:
        site: the settings of the cluster.
        environ: the environment of the user.
    """
    try:
        runtime = find_runtime(site)
    except RuntimeMissingError:
        return
    release = runtime.release
    oldest = _OLDEST.get(release.name, "")
    if oldest and version_order(release.number) < version_order(oldest):
        yield Finding(
            PROBLEM,
            "runtime",
            f"{release.name} {release.number} is too old: {oldest} or later is required",
            "packed user software can't be mounted",
            "load or install a newer one, and name it as runtime in the site file",
        )
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
    described = [str(folder) for folder in _CDI_FOLDERS if release.has_devices and os.path.isdir(folder)]  # noqa: PTH112 - without an error where it can't be read
    if described:
        what = f"{' and '.join(described)} describe devices for CDI, which modules do not use"
        remedy = "singularity exec --device VENDOR/CLASS=NAME $SIF ..., with a module that has gpu_libraries = 'image'"
        yield Finding(NOTE, "runtime", what, "", remedy)


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
