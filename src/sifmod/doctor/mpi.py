"""Whether MPI works in a container on this host: which row of docs/howto/run-mpi.md it falls into, before it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional

from sifmod.errors import ParameterError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.command import ask
from sifmod.host.namespaces import makes_user_namespaces
from sifmod.host.runtime import ContainerRuntime
from sifmod.image.inspection import Inspection
from sifmod.image.mpi import MpiLibrary
from sifmod.inside.mpi_check import MPICH_WAITS_FIRST, OPEN_MPI
from sifmod.install.mpi import UNSEEN, choose_mpi, namespace_variables
from sifmod.site.settings import Site
from sifmod.text.printable import one_line
from sifmod.text.version import version_order

_TOPIC = "MPI"
_ROWS = "of 'sifmod help run-mpi'"

# What Slurm calls the interfaces that the families understand, the usual one first.
_PMIX, _PMI = ("pmix",), ("pmi2", "cray_shasta", "pmix")

_WAITS_FIRST = ".".join(map(str, MPICH_WAITS_FIRST))


def check_mpi(
    site: Site,
    image: Inspection,
    runtime: Optional[ContainerRuntime],
    *,
    mpi: str = "",
    features: tuple[str, ...] = (),
    settings: Optional[Mapping[str, str]] = None,
) -> Iterator[Finding]:
    """Yield what is to be expected of MPI in a container; nothing if neither the image nor the site has one."""
    try:
        choice = choose_mpi(site, image, mpi=mpi, features=features)
    except ParameterError as error:
        yield Finding(PROBLEM, _TOPIC, str(error), "programs of the image can't use that library")
        return
    library = choice.host.library if choice.host else next(iter(image.mpi), None)
    if choice.is_unchecked:
        yield Finding(
            WARNING, _TOPIC, UNSEEN, "so it is not compared with the image", "run sifmod doctor on a compute node"
        )
        if library:
            yield from _process_manager(library)  # the host's must have the same ABI
        return
    if choice.is_left_out:
        yield Finding(NOTE, _TOPIC, choice.misfit, "so the image's MPI is used")
    if library is None:
        return
    whose = "the host's" if choice.host else "the image's"
    yield Finding(OK, _TOPIC, f"programs use {whose} {library.words}, {library.path}")
    yield from _process_manager(library)
    if library.device.startswith("ch4:ucx") and version_order(library.version) < version_order(_WAITS_FIRST):
        what = f"{library.words} may hang in MPI_Finalize over UCX's tcp, also without a container"
        yield Finding(NOTE, _TOPIC, what, f"row 7 {_ROWS}", f"MPICH {_WAITS_FIRST} or later, or no tcp in UCX_TLS")
    if runtime and makes_user_namespaces(runtime):
        yield from _namespaces(library, is_host=choice.host is not None, settings=settings)


def _process_manager(library: MpiLibrary) -> Iterator[Finding]:
    """Compare what the library understands with what Slurm offers: without it each rank is alone."""
    status, said = ask(["srun", "--mpi=list"])
    if status:
        return  # this host has no Slurm
    offered = {word for line in said.splitlines() for word in line.replace(",", " ").split()}
    known = _PMIX if library.abi == OPEN_MPI else _PMI
    row = f"row 1 {_ROWS}: with another one, each rank is alone"
    what = f"Slurm offers none of {', '.join(known)}, which {library.words} understands"
    for name in known:
        if name in offered:
            reason = _why_not_loaded(name)
            if not reason:
                yield Finding(OK, _TOPIC, f"start it with srun --mpi={name}", row)
                return
            what = f"Slurm lists {name}, which {library.words} understands, and can't load it: {reason}"
    yield Finding(PROBLEM, _TOPIC, what, row, "ask an administrator for Slurm's plugin (srun --mpi=list)")


def _why_not_loaded(plugin: str) -> str:
    """Return why srun can't load a plugin that it lists, such as one without its library; empty if it can.

    With --test-only srun loads the plugin, and starts no job or step, in an allocation either (seen: Slurm 22.05).
    """
    status, said = ask(["srun", f"--mpi={plugin}", "--test-only", "true"])
    if not status or "Invalid MPI type" not in said:
        return ""
    return one_line(said.splitlines()[0].removeprefix("srun: error:").strip())


def _namespaces(library: MpiLibrary, *, is_host: bool, settings: Optional[Mapping[str, str]]) -> Iterator[Finding]:
    """Compare what the library needs in user namespaces with what the module sets."""
    needed = namespace_variables([library], [library.abi or ""])
    failing, cured = ("5", "6") if is_host else ("2", "3")
    if not needed:
        return
    words = " ".join(f"{name}={value}" for name, value in needed.items())
    if settings is None:
        what = f"it needs {words} here, because the runtime makes a user namespace for each rank"
        yield Finding(NOTE, _TOPIC, what, f"row {failing} {_ROWS}; with them, row {cured}", "the module will set them")
    elif dict(settings).items() >= needed.items():
        yield Finding(OK, _TOPIC, f"the module sets {words}", f"row {cured} {_ROWS}")
    else:
        what = f"the module does not set {words}, which it needs here"
        yield Finding(WARNING, _TOPIC, what, f"row {failing} {_ROWS}: MPI fails or hangs", "eb --rebuild")
