"""The contents of an image, read from its files, without a container runtime and without running anything in it."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Optional

from sifmod.errors import ImageError, os_errors
from sifmod.image import superblock, system
from sifmod.image.files import ImageFiles, SandboxFiles, SquashFsFiles
from sifmod.image.gpustack import Component, Torch, demanded, find_compat, find_components, find_drivers, find_torch
from sifmod.image.mpi import MpiLibrary, find_mpi
from sifmod.image.programs import Programs, find_programs
from sifmod.image.python import CONDA, SYSTEM, ImagePython, Packages, find_pythons, user_software_pythons
from sifmod.image.sif import (
    DEFINITION,
    FILE_SYSTEMS,
    SQUASHFS,
    SifFile,
    Signature,
    check_is_sif,
    file_system,
    read_sif,
)
from sifmod.image.squashfs import SquashFs

SIF, BARE, SANDBOX, USER_SOFTWARE = "SIF", "SquashFS", "sandbox", "user software"

# Main packages of images, in order of preference, and the names of their modules in easyconfigs.
MAIN_PACKAGES = {
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "tensorflow-rocm": "TensorFlow",
    "tensorflow-cpu": "TensorFlow",
    "jax": "jax",
    "mpi4py": "mpi4py",
}
_DEFINITION = 1 << 20  # bytes


@dataclass(frozen=True)
class Inspection:
    """The contents of an image. Text is empty if the image does not have it, or if it can't be read."""

    path: str
    kind: str  # `SIF`, `SquashFS`, `sandbox` or `user software`
    size: int = 0  # size of the file in bytes; 0 for a directory
    created: int = 0  # time of creation in seconds since 1970; 0 for a directory
    file_system: str = ""  # file system of the image, such as `squashfs`; `directory` for a directory
    compression: str = ""  # compressor of the SquashFS, such as `gzip`
    block_size: int = 0  # block size of the SquashFS in bytes
    files: int = 0  # number of files, directories and links in the SquashFS
    unread: str = ""  # why the files of the image could not be read; empty if they could
    architecture: str = ""  # processor architecture, such as `amd64`
    os: str = ""  # name and version of the Linux distribution
    os_id: str = ""  # its identifier, such as `debian`
    libc: str = ""  # name and version of the C library
    locales: tuple[str, ...] = ()  # its locales in UTF-8, such as `C.utf8`; empty if these are not known
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    # variables that the image sets, as far as they can be read without a shell
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    runscript: str = ""  # script of `singularity run`
    startscript: str = ""  # script of `singularity instance start`
    test: str = ""  # script of `singularity test`
    help: str = ""  # text of `singularity run-help`
    definition: str = ""  # text of the definition file
    signatures: tuple[Signature, ...] = ()  # signatures, not verified
    pythons: tuple[ImagePython, ...] = ()
    default_python: str = ""  # prefix of the Python that users most likely want; empty if there is none
    components: tuple[Component, ...] = ()  # GPU and MPI libraries
    compat: tuple[Component, ...] = ()  # compat libraries of newer drivers, each with the folder that has them
    # paths of driver libraries of its own where its programs search; None if these places are not known
    drivers: Optional[tuple[str, ...]] = None
    demand: str = ""  # in words what the image itself demands of the host's driver
    torch: tuple[Torch, ...] = ()  # PyTorch in each Python that has it
    mpi: tuple[MpiLibrary, ...] = ()  # MPI libraries, those in the library path first
    # name and version of each package of its distribution, and of each one that it lists itself
    packages: Packages = field(default=(), repr=False)

    @property
    def stacks(self) -> tuple[str, ...]:
        """Names of the GPU stacks: the one of the default Python's PyTorch, or else all components."""
        torch = next((one.stack for one in self.torch if one.prefix == self.default_python and one.stack), "")
        return (torch,) if torch else tuple(dict.fromkeys(one.name for one in self.components))

    def python(self, prefix: str = "") -> ImagePython:
        """Return the Python with a prefix, or of a conda environment; by default the one that users most likely want.

        Raises:
            ImageError: there is no such Python; the message lists the Pythons of the image.
        """
        wanted = prefix.rstrip("/") or self.default_python
        for python in self.pythons:
            if wanted and wanted in (python.prefix, python.conda_env, posixpath.basename(python.prefix)):
                return python
        prefixes = ", ".join(python.prefix for python in self.pythons)
        if not prefixes:
            why = f": {self.unread}" if self.unread else ""
            raise ImageError(f"'{self.path}' has no Python where images usually have it{why}")
        raise ImageError(f"'{self.path}' has no Python in '{prefix}': it has {prefixes}")


def inspect_image(path: Path) -> Inspection:
    """Return the contents of an image: a SIF, a SquashFS file, a sandbox, or user software, packed or not.

    Raises:
        ImageError: the image can't be read, is of another kind, or is damaged.
    """
    with open_image(path) as (known, files):
        return _look_into(known, files) if files else Inspection(**known)


def has_shell(path: Path) -> bool:
    """Return whether an image has `/bin/sh`; true if that is unknown. Some hold nothing but their program."""
    try:
        with open_image(path) as (_known, files):
            return files is None or files.is_program("/bin/sh")
    except ImageError:
        return True


def inspect_programs(path: Path) -> Programs:
    """Return what programs an image is for, with their commands; none if its files can't be read."""
    with open_image(path) as (_known, files):
        return find_programs(files) if files else Programs()


def contents_of(path: Path) -> Optional[Inspection]:
    """Return the contents of an image; None if they can't be read."""
    try:
        return inspect_image(path)
    except ImageError:
        return None


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[tuple[dict[str, Any], Optional[ImageFiles[Any]]]]:
    """Yield fields of `Inspection` that the file format provides, and the files; None if they can't be read.

    Raises:
        ImageError: the file can't be read, is not an image, or is damaged.
    """
    with os_errors(ImageError, f"the image '{path}' can't be read"):
        # opening a FIFO would wait for a writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        yield {"path": str(path), "kind": SANDBOX, "file_system": "directory"}, SandboxFiles(path)
        return
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(mode):
            raise ImageError(f"'{path}' is neither a file nor a directory: use the path of an image")
        size = os.fstat(descriptor).st_size
        known: dict[str, Any] = {"path": str(path), "size": size}
        if os.pread(descriptor, len(superblock.MAGIC), 0) == superblock.MAGIC:
            squashfs = SquashFs(stream, name=str(path), size=size)
            yield {**known, "kind": BARE, **_described(squashfs)}, SquashFsFiles(squashfs)
            return
        check_is_sif(path)
        sif = read_sif(stream, name=str(path))
        known.update(_of_sif(sif, stream))
        system = sif.system
        if system is None or file_system(system) != SQUASHFS:
            kind = FILE_SYSTEMS.get(file_system(system), "an unknown file system") if system else ""
            reason = f"its root file system is {kind}, not one" if kind else "it has no root file system"
            yield {**known, "file_system": kind, "unread": f"{reason} that sifmod can read"}, None
            return
        squashfs = SquashFs(stream, name=str(path), offset=system.offset, size=system.size)
        described = _described(squashfs)
        yield {**known, **described, "created": sif.created or described["created"]}, SquashFsFiles(squashfs)


def _described(squashfs: SquashFs) -> dict[str, Any]:
    return {
        "file_system": "squashfs",
        "compression": squashfs.compression,
        "block_size": squashfs.block_size,
        "files": squashfs.inodes,
        "created": squashfs.created,
    }


def _of_sif(sif: SifFile, stream: IO[bytes]) -> dict[str, Any]:
    definitions = [one for one in sif.descriptors if one.kind == DEFINITION]
    text = (
        os.pread(stream.fileno(), min(definitions[-1].size, _DEFINITION), definitions[-1].offset)
        if definitions
        else b""
    )
    return {
        "kind": SIF,
        "created": sif.created,
        "architecture": sif.architecture,
        "definition": text.decode("utf-8", "replace").strip(),
        "signatures": sif.signatures,
    }


def _look_into(known: dict[str, Any], files: ImageFiles[Any]) -> Inspection:
    if known["kind"] != SIF:
        if not files.names("/usr") and not files.names("/bin"):
            return _user_software(known, files)
        if known["kind"] == SANDBOX and not (files.names("/etc") or files.names("/.singularity.d")):
            raise ImageError(_no_image(known["path"]))
    packages = system.system_packages(files)
    environment = system.environment(files)
    search_path = [
        folder for folder in environment.get("PATH", system.DEFAULT_PATH).split(":") if folder.startswith("/")
    ]
    pythons = find_pythons(files, search_path=search_path, system_packages=packages)
    torches = tuple(filter(None, (find_torch(files, python, environment) for python in pythons)))
    components = find_components(files, pythons=pythons, torches=torches, environment=environment, packages=packages)
    release, libc = system.os_release(files), system.libc(files, packages)
    defaults = {
        "architecture": system.architecture(files),
        "definition": system.definition(files),
    }
    return Inspection(
        **{**known, **{name: known.get(name) or value for name, value in defaults.items()}},
        os=release.get("PRETTY_NAME") or release.get("NAME", ""),
        os_id=release.get("ID", ""),
        libc=libc,
        locales=system.locales(files, libc),
        labels=system.labels(files),
        environment=environment,
        runscript=system.script(files, "runscript"),
        startscript=system.script(files, "startscript"),
        test=system.script(files, "test"),
        help=system.script(files, "runscript.help"),
        pythons=pythons,
        default_python=_default_python(files, pythons, environment, search_path),
        components=components,
        compat=find_compat(files),
        drivers=find_drivers(files),
        demand=demanded(environment),
        torch=torches,
        mpi=find_mpi(files, environment=environment, pythons=pythons),
        packages=tuple(sorted({*packages.items(), *system.listed_packages(files)})),
    )


def _user_software(known: dict[str, Any], files: ImageFiles[Any]) -> Inspection:
    pythons = user_software_pythons(files)
    if not pythons and not files.is_directory("/venv"):
        raise ImageError(_no_image(known["path"]))
    default = pythons[0].prefix if pythons else ""
    return Inspection(**{**known, "kind": USER_SOFTWARE}, pythons=pythons, default_python=default)


def _no_image(path: str) -> str:
    return (
        f"'{path}' is neither an image nor user software: it contains neither the root file system of a Linux system "
        "nor a folder 'venv'. Use the path of a SIF, a SquashFS file, a sandbox or user software"
    )


def _default_python(
    files: ImageFiles[Any],
    pythons: tuple[ImagePython, ...],
    environment: Mapping[str, str],
    search_path: list[str],
) -> str:
    """Return the prefix of the Python that users most likely want.

    This is the one that the image activates, else the first one with a main package, else the first one in its PATH.
    """
    activated = re.search(r"activate\s+(\S+)", environment.get("WITH_CONDA", ""))
    wanted = [activated[1].strip("\"'")] if activated else []
    wanted += [
        environment[name] for name in ("CONDA_DEFAULT_ENV", "CONDA_PREFIX", "VIRTUAL_ENV") if environment.get(name)
    ]
    for name in wanted:
        for python in pythons:
            if name in (python.conda_env, python.prefix):
                return python.prefix
    in_path = []
    places = [(files.resolved(f"{one.prefix}/bin"), one) for one in pythons]
    for folder in search_path:
        place = files.resolved(folder)
        in_path += [one for folder, one in places if folder == place]
    # a conda environment before its root, anything before the system's own
    others = sorted(pythons, key=lambda one: (one.kind == SYSTEM, one.kind == CONDA and one.conda_env == "base"))
    candidates = list(dict.fromkeys([*in_path, *others]))
    about = [one for one in candidates if any(one.version_of(package) for package in MAIN_PACKAGES)]
    return next((one.prefix for one in [*about, *candidates]), "")
