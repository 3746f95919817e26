"""The MPI libraries in an image, and whether programs that were linked with one run with another one.

The same code reads the host's libraries: a file system is a file system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Optional

from sifmod.image.elf import read_library
from sifmod.image.files import ImageFiles
from sifmod.image.python import ImagePython
from sifmod.image.system import configured_folders, glibc_problem, library_folders
from sifmod.inside.mpi_check import MPICH, OPEN_MPI, SONAMES, STANDARD

Files = ImageFiles[Any]

# Debian and Ubuntu, which have several MPIs, call MPICH's library libmpich; Cray has one for each compiler.
_NAME = re.compile(r"libmpi(?:ch|_abi|_cray|_gnu_\d+)?\.so(?:\.\d+)*")
_MPICH_NAME = re.compile(r"libmpi(?:ch|_cray|_gnu_\d+)?\.so\.12")
_MOST_FOLDERS = 500
_MOST_LIBRARIES = 20
_MOST_READ = 64 << 20  # bytes in which the version is looked for; Debian's libmpich has 42 MB

# MPICH has its device (ch3, ch4), its configuration and its version one after the other. A string has a character at
# least: a run of zeros could be cut into empty ones in more ways than can be tried.
_MPICH_VERSION = re.compile(rb"\0(ch[34]:[^\0]{1,60})\0+(?:[^\0]{1,8192}\0+){0,12}?(\d+\.\d+(?:\.\d+)?[\w.]{0,8})\0")
_UCX_VERSION = re.compile(rb"/ucx-(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)/")
_OPEN_MPI_VERSION = re.compile(rb"Open MPI (?:v|[\w ]{1,60} MCA component version )(\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class MpiLibrary:
    """One MPI library."""

    path: str  # its path, without links
    soname: str  # the name that programs need it by
    abi: str  # `MPICH`, `Open MPI` or `MPI-5`; empty for another ABI, such as that of Open MPI 2
    version: str  # its version; empty if the file does not say it
    device: str  # MPICH's device, such as `ch4:ucx`; empty for others
    glibc: str  # the version of glibc that it needs; empty if it needs none
    ucx: bool  # whether it uses UCX
    ucx_version: str = ""  # the version of UCX; empty if its files do not say it

    @property
    def words(self) -> str:
        """Its family and version, as a message names it."""
        return f"{self.abi or 'MPI'} {self.version}".strip()


def find_mpi(files: Files, *, environment: Mapping[str, str], pythons: Iterable[ImagePython]) -> tuple[MpiLibrary, ...]:
    """Return the MPI libraries of an image, those in its library path first."""
    folders = [one for one in environment.get("LD_LIBRARY_PATH", "").split(":") if one.startswith("/")]
    folders += configured_folders(files)[:_MOST_FOLDERS]
    for folder in library_folders(files):
        folders += [folder, *(f"{folder}/{name}/lib" for name in ("openmpi", "mpich", "mvapich2")), f"{folder}/mpich"]
    for python in pythons:
        folders += [f"{python.prefix}/lib"]
    for top in ("/usr/local", "/opt"):
        folders += [f"{top}/{name}" for name in ("lib", "lib64")]
        folders += [f"{top}/{name}/{lib}" for name in files.names(top)[:_MOST_FOLDERS] for lib in ("lib", "lib64")]
    folders.append("/opt/hpcx/ompi/lib")
    return libraries_in(files, folders)


def libraries_in(files: Files, folders: Iterable[str]) -> tuple[MpiLibrary, ...]:
    """Return the MPI libraries in folders of the image, or of the host, in the order of the folders."""
    libraries: dict[str, MpiLibrary] = {}
    for folder in dict.fromkeys(filter(None, map(files.resolved, islice(folders, _MOST_FOLDERS)))):
        for name in files.names(folder):
            path = files.resolved(f"{folder}/{name}") if _NAME.fullmatch(name) else ""
            if path and path not in libraries and len(libraries) < _MOST_LIBRARIES:
                library = read_mpi(files, path)
                if library:
                    libraries[path] = library
    return tuple(libraries.values())


def read_mpi(files: Files, path: str) -> Optional[MpiLibrary]:
    """Return the MPI library at a path; None if there is none."""
    library = read_library(files, path)
    if library is None or not _NAME.fullmatch(library.soname):
        return None
    content = files.read(path, limit=_MOST_READ)
    abi = abi_of(library.soname, library.needed)
    mpich = _MPICH_VERSION.search(content)
    open_mpi = _OPEN_MPI_VERSION.search(content) if abi == OPEN_MPI else None
    version = open_mpi[1] if open_mpi else mpich[2] if mpich and abi != OPEN_MPI else b""
    ucx = any(name.startswith("libucp.") for name in library.needed)
    return MpiLibrary(
        path=files.resolved(path),
        soname=library.soname,
        abi=abi,
        version=version.decode("ascii", "replace"),
        device=mpich[1].decode("ascii", "replace") if mpich and abi != OPEN_MPI else "",
        glibc=library.glibc,
        ucx=ucx,
        ucx_version=_ucx_version(files, files.resolved(path)) if ucx else "",
    )


def _ucx_version(files: Files, path: str) -> str:
    """Return the version of the UCX that a library uses, from the paths of its sources in messages."""
    folder = path.rpartition("/")[0]
    for place in dict.fromkeys((folder, f"{folder}/mpich", f"{folder}/openmpi", *library_folders(files))):
        content = files.read(f"{place}/libucs.so.0", limit=_MOST_READ)
        if content:
            version = _UCX_VERSION.search(content)
            return version[1].decode() if version else ""
    return ""


def abi_of(soname: str, needed: Iterable[str] = ()) -> str:
    """Return the family of binary interfaces that a library has; empty if that family has no stable ABI."""
    if soname.startswith("libmpi_abi."):
        return STANDARD
    if soname in SONAMES[OPEN_MPI]:
        return OPEN_MPI
    if _MPICH_NAME.fullmatch(soname) and not any(name.startswith("libopen-") for name in needed):
        return MPICH
    return ""


def misfit(host: MpiLibrary, image: Iterable[MpiLibrary], *, libc: str, needs_glibc: str = "") -> str:
    """Return why programs of an image can't run with an MPI library of the host; empty if they may.

    The image has its own MPI libraries, and a C library such as `glibc 2.36`, empty if unknown. The host's library
    needs a version of glibc together with all that comes with it; by default its own.
    """
    abis = sorted({one.abi or one.soname for one in image})
    if abis and (host.abi or host.soname) not in abis:
        has = " and ".join(abis)
        return f"{host.path} of the host has the ABI of {host.abi or host.soname}, but the image has that of {has}"
    problem = glibc_problem(needs_glibc or host.glibc, libc)
    return f"{host.path} of the host {problem}" if problem else ""
