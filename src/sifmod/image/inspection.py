"""What is in an image, read from its files: no container runtime takes part, and nothing of the image is run."""

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

from sifmod.errors import ImageError
from sifmod.image import superblock, system
from sifmod.image.files import ImageFiles, SandboxFiles, SquashFsFiles
from sifmod.image.gpustack import Component, Torch, find_components, find_torch
from sifmod.image.python import CONDA, SYSTEM, ImagePython, find_pythons, user_software_pythons
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

# The distribution that an image is about, the first that is there, and the name that its module has in easyconfigs.
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
    """What an image holds. Text is as the image has it: an empty one is not there, or can't be read.

    Attributes:
        path: of the image, as it was given.
        kind: `SIF`, `SquashFS`, `sandbox` or `user software`.
        size: of the file, in bytes; 0 for a directory.
        created: in seconds since 1970; 0 for a directory.
        file_system: such as `squashfs`; `directory` for a directory.
        compression: of the SquashFS, such as `gzip`.
        block_size: of the SquashFS, in bytes.
        files: how many files, directories and links the SquashFS has.
        unread: why the files of the image could not be looked at; empty where they were.
        architecture: such as `amd64`.
        os: name and version of the Linux distribution.
        os_id: its identifier, such as `debian`.
        libc: name and version of the C library.
        labels: the image's labels.
        environment: the variables that it sets, as far as they can be read without a shell.
        runscript: what `singularity run` runs.
        startscript: what `singularity instance start` runs.
        test: what `singularity test` runs.
        help: what `singularity run-help` prints.
        definition: the definition file that it was built from.
        signatures: who signed it, not verified.
        pythons: its Pythons with their packages.
        default_python: prefix of the one that users most likely mean; empty where there is none.
        components: GPU and MPI libraries.
        torch: PyTorch in each Python that has it.
    """

    path: str
    kind: str
    size: int = 0
    created: int = 0
    file_system: str = ""
    compression: str = ""
    block_size: int = 0
    files: int = 0
    unread: str = ""
    architecture: str = ""
    os: str = ""
    os_id: str = ""
    libc: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    runscript: str = ""
    startscript: str = ""
    test: str = ""
    help: str = ""
    definition: str = ""
    signatures: tuple[Signature, ...] = ()
    pythons: tuple[ImagePython, ...] = ()
    default_python: str = ""
    components: tuple[Component, ...] = ()
    torch: tuple[Torch, ...] = ()

    @property
    def stacks(self) -> tuple[str, ...]:
        """What it is made for, by name: what the default Python's PyTorch was built for, else all its components."""
        torch = next((one.stack for one in self.torch if one.prefix == self.default_python and one.stack), "")
        return (torch,) if torch else tuple(dict.fromkeys(one.name for one in self.components))

    def python(self, prefix: str = "") -> ImagePython:
        """Return one of the Pythons, by default the one that users most likely mean.

        Args:
            prefix: such as `/opt/venv`, or `pytorch` for a conda environment.

        Raises:
            ImageError: there is none; the message lists those that are there.
        """
        wanted = prefix.rstrip("/") or self.default_python
        for python in self.pythons:
            if wanted and wanted in (python.prefix, python.conda_env, posixpath.basename(python.prefix)):
                return python
        there = ", ".join(python.prefix for python in self.pythons)
        if not there:
            raise ImageError(f"'{self.path}' has no Python where images usually have it" + self._why_unread())
        raise ImageError(f"'{self.path}' has no Python in '{prefix}': it has {there}")

    def _why_unread(self) -> str:
        return f": {self.unread}" if self.unread else ""


def inspect_image(path: Path) -> Inspection:
    """Return what an image holds.

    Args:
        path: of a SIF, a SquashFS file, a sandbox, or user software, packed or not.

    Raises:
        ImageError: it can't be read, is none of these, or is damaged.
    """
    with open_image(path) as (known, files):
        return _look_into(known, files) if files else Inspection(**known)


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[tuple[dict[str, Any], Optional[ImageFiles[Any]]]]:
    """Give what the image's container says of it, as fields of `Inspection`, and its files; None where unreadable.

    Raises:
        ImageError: it can't be read, is no image, or is damaged.
    """
    try:
        # opening a FIFO would wait for a writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ImageError(f"the image '{path}' can't be read: {error.strerror}") from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        yield {"path": str(path), "kind": SANDBOX, "file_system": "directory"}, SandboxFiles(path)
        return
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(mode):
            raise ImageError(f"'{path}' is no file and no directory: give the path of an image")
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
            found = FILE_SYSTEMS.get(file_system(system), "an unknown file system") if system else ""
            reason = f"its root file system is {found}" if found else "it has no partition with a root file system"
            yield {**known, "file_system": found, "unread": f"{reason}, which can't be looked into"}, None
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
    release = system.os_release(files)
    defaults = {
        "architecture": system.architecture(files),
        "definition": system.definition(files),
    }
    return Inspection(
        **{**known, **{name: known.get(name) or value for name, value in defaults.items()}},
        os=release.get("PRETTY_NAME") or release.get("NAME", ""),
        os_id=release.get("ID", ""),
        libc=system.libc(files, packages),
        labels=system.labels(files),
        environment=environment,
        runscript=system.script(files, "runscript"),
        startscript=system.script(files, "startscript"),
        test=system.script(files, "test"),
        help=system.script(files, "runscript.help"),
        pythons=pythons,
        default_python=_default_python(files, pythons, environment, search_path),
        components=components,
        torch=torches,
    )


def _user_software(known: dict[str, Any], files: ImageFiles[Any]) -> Inspection:
    pythons = user_software_pythons(files)
    if not pythons and not files.is_directory("/venv"):
        raise ImageError(_no_image(known["path"]))
    default = pythons[0].prefix if pythons else ""
    return Inspection(**{**known, "kind": USER_SOFTWARE}, pythons=pythons, default_python=default)


def _no_image(path: str) -> str:
    return (
        f"'{path}' is neither an image nor user software: there is no root file system of Linux in it, and no folder "
        "'venv' as user software has it. Give the path of a SIF, a SquashFS file, a sandbox or user software"
    )


def _default_python(
    files: ImageFiles[Any],
    pythons: tuple[ImagePython, ...],
    environment: Mapping[str, str],
    search_path: list[str],
) -> str:
    """Return the prefix of the Python that users most likely mean.

    What the image activates by itself, else the first one in its PATH, unless only others have what the image is about.
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
        in_path += [one for there, one in places if there == place]
    # a conda environment before its root, anything before the system's own
    others = sorted(pythons, key=lambda one: (one.kind == SYSTEM, one.kind == CONDA and one.conda_env == "base"))
    candidates = list(dict.fromkeys([*in_path, *others]))
    about = [one for one in candidates if any(one.version_of(package) for package in MAIN_PACKAGES)]
    return next((one.prefix for one in [*about, *candidates]), "")
