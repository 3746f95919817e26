"""The host's MPI: which one a site binds into containers, and what a site file has to say to bind one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.errors import SifmodError
from sifmod.host.features import bound
from sifmod.image.elf import read_library
from sifmod.image.files import SandboxFiles
from sifmod.image.mpi import MpiLibrary, libraries_in, read_mpi
from sifmod.inside.mpi_check import OPEN_MPI, SONAMES
from sifmod.install.discovery import LEFT_OUT, Discovery, cached_libraries, glibc_of, linked
from sifmod.site.feature import Feature
from sifmod.text.version import version_order

# Where a discovered MPI is in the container: nothing else is there.
_FOLDER = "/host/mpi"

_FORTRAN = {"libmpichfort.so.12": "libmpifort.so.12", "libmpichcxx.so.12": "libmpicxx.so.12"}

# Folders of plugins beside a library, and the variable that tells it where they are.
_PLUGINS = {"libucs": ("ucx", "UCX_MODULE_DIR"), "libfabric": ("libfabric", "FI_PROVIDER_PATH")}
_MOST_LIBRARIES = 500  # that are read for one
# What programs need an MPI library by, whatever its family.
_NAMES = tuple(name for known in SONAMES.values() for name in known)
_MPI = re.compile(r"libmpi(?:ch|_abi)?\.so[\d.]*")


@dataclass(frozen=True)
class HostMpi:
    """The MPI of the host that a feature binds, and the version of glibc that all of it needs."""

    library: MpiLibrary
    glibc: str


def host_mpi(feature: Feature, others: Iterable[Bind] = ()) -> tuple[HostMpi, ...]:
    """Return the MPI libraries that a feature binds on this host; empty if none is seen here.

    They are bound as files, by a pattern, or with their folder. A folder is looked through as the loader does: what the
    library path leads to; else the folder itself, as it may be bound over one of the image.
    """
    files = SandboxFiles(Path("/"))
    own = [pair for bind in (*feature.binds, *feature.optional_binds) for pair in bound(bind).items()]
    all_bound = [*own, *(pair for bind in others for pair in bound(bind).items())]
    folders = [
        source + path[len(destination.rstrip("/")) :]
        for path in feature.library_path
        for source, destination in all_bound
        if f"{path}/".startswith(f"{destination.rstrip('/')}/")
    ]
    sources = [source for source, _ in own]
    folders += [f"{one}{below}" for one in sources if files.is_directory(one) for below in ("", "/lib", "/lib64")]
    paths = [one for one in sources if ".so" in Path(one).name and files.is_file(one)]
    versions = [library.glibc for path in paths if (library := read_library(files, path))]
    alone = {one.path: one for path in paths if (one := read_mpi(files, path))}
    beside = {one.path: one for one in libraries_in(files, folders) if one.path not in alone}
    return tuple(
        HostMpi(one, max([*versions, *_glibc_of(files, one.path, folders)], key=version_order))
        for one in (*alone.values(), *beside.values())
    )


def _glibc_of(files: SandboxFiles, path: str, folders: Iterable[str]) -> Iterator[str]:
    """Yield the version of glibc that a library needs, and those of the libraries that it finds in these folders."""
    waiting = [path]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_LIBRARIES:
        one = waiting.pop()
        library = None if one in seen else read_library(files, one)
        seen.add(one)
        if library:
            yield library.glibc
            for name in library.needed:
                found = (files.resolved(f"{folder}/{name}") for folder in folders if not LEFT_OUT.fullmatch(name))
                waiting += [next(filter(None, found), "")]


@dataclass(frozen=True)
class MpiDiscovery(Discovery):
    """The same for an MPI."""

    library: MpiLibrary


def find_library(environ: Mapping[str, str]) -> Path:
    """Return the MPI library that programs of this host find: in the library path, else in the loader's cache."""
    for folder in filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")):
        for name in _NAMES:
            path = Path(folder, name)
            if path.is_file():
                return path
    found = cached_libraries(environ)
    for name in _NAMES:
        if name in found:
            return Path(found[name])
    raise SifmodError(
        "no MPI library was found in LD_LIBRARY_PATH or in the loader's cache (ldconfig -p): load the module of the "
        "host's MPI first, or name its libmpi.so with --library"
    )


def discover(path: Path) -> MpiDiscovery:
    """Return what a site file has to say to bind an MPI library of this host.

    `ldd` is run on the library, which may run code of it: it must be a library that one trusts.

    Raises:
        SifmodError: it is not an MPI library, or `ldd` fails.
    """
    files = SandboxFiles(Path("/"))
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a link is named, not its target
    library = read_mpi(files, str(path))
    if library is None:
        raise SifmodError(f"'{path}' is not an MPI library: name the file libmpi.so with --library")
    binds: dict[str, str] = {}  # destination: source
    for name in SONAMES.get(library.abi, (library.soname,)):
        binds[f"{_FOLDER}/{name}"] = str(path)
    needed, missing = linked(path)
    for fortran in sorted(path.parent.glob("libmpi*.so.*")):
        other = read_library(files, str(fortran))
        if other and not _MPI.fullmatch(other.soname) and other.soname == fortran.name:
            for name in (other.soname, _FORTRAN.get(other.soname, other.soname)):
                binds[f"{_FOLDER}/{name}"] = str(fortran)
    variables = {"MPI4PY_LIBMPI": f"{_FOLDER}/{SONAMES.get(library.abi, (library.soname,))[0]}"}
    optional = []
    for name, source in sorted(needed.items()):
        binds.setdefault(f"{_FOLDER}/{name}", source)
        folder, variable = _PLUGINS.get(name.partition(".so")[0], ("", ""))
        plugins = Path(os.path.realpath(source)).parent / folder
        if folder and plugins.is_dir():
            binds[f"{_FOLDER}/{folder}"] = str(plugins)
            variables[variable] = f"{_FOLDER}/{folder}"
            for plugin in sorted(plugins.glob("*.so*")):
                for other_name, other_source in linked(plugin)[0].items():
                    binds.setdefault(f"{_FOLDER}/{other_name}", other_source)
    if any(name.startswith(f"{_FOLDER}/libibverbs.") for name in binds):
        optional = ["/etc/libibverbs.d"]
    notes = [f"ldd does not find {name} on this host: load its module, and discover again." for name in missing]
    if library.abi == OPEN_MPI:
        notes.append("Open MPI also loads files of its installation: if mpi-check fails, bind it and set OPAL_PREFIX.")
    table: dict[str, object] = {
        "help": f"{library.words} of the host",
        "binds": [Bind(source, destination, "ro").argument for destination, source in sorted(binds.items())],
        **({"optional_binds": optional} if optional else {}),
        "library_path": [_FOLDER],
        "container_env": dict(sorted(variables.items())),
    }
    device = f" ({library.device})" if library.device else ""
    words = f"{library.words}{device}, {library.path}, with the ABI of {library.abi or library.soname}"
    return MpiDiscovery(names.MPI_FEATURE, words, glibc_of(binds.values()), table, tuple(notes), library)
