"""Check what a site's way to give containers GPUs needs on this host: a command, or files of CDI that fit."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from sifmod.container.gpu import VENDORS, Setup, Vendor
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.cdi import FOLDERS, CdiFile, cdi_files
from sifmod.host.runtime import Release
from sifmod.site.settings import Site
from sifmod.text.printable import few
from sifmod.text.quoting import shell

_KEY = "gpu_setup"


def check_gpu_setup(site: Site, release: Release, folders: Sequence[Path] = FOLDERS) -> Iterator[Finding]:
    """Yield the findings on the site's `gpu_setup`, for each vendor whose GPUs it is for; none if it has none."""
    for vendor in VENDORS.values():
        setup = vendor.setups.get(site.gpu_setup)
        has_gpus = os.path.exists(vendor.device)  # noqa: PTH110 - without an error where a folder above is not ours
        if setup and (has_gpus or site.gpu in ("", vendor.key)):
            if setup.tool:
                yield from _tool(setup, release, has_gpus=has_gpus)
            if setup.device:
                yield from _option(vendor, setup, release)
                if has_gpus:
                    yield from _files(vendor, setup, release, cdi_files(folders))
                else:
                    what = f"this host has no {vendor.device}"
                    yield Finding(NOTE, _KEY, what, "only a GPU node can show whether its CDI files fit")


def _tool(setup: Setup, release: Release, *, has_gpus: bool) -> Iterator[Finding]:
    path = shutil.which(setup.tool)
    if path:
        yield Finding(OK, _KEY, path)
    else:
        what = f"there is no command {setup.tool} on PATH"
        why = "no container with GPU support starts here, once its module is loaded"
        remedy = "install it, or load modules on nodes that have it"
        yield Finding(PROBLEM if has_gpus else WARNING, _KEY, what, why, remedy)
    if release.name == "apptainer":
        # its CHANGELOG, 1.1.0; installed with setuid it refuses that (1.0.0)
        what = f"Apptainer starts {setup.tool} only in an image where the user may write to /usr/bin"
        yield Finding(WARNING, _KEY, what, "SIFs do not start with it", f"leave {_KEY} out, or use cdi")


def _option(vendor: Vendor, setup: Setup, release: Release) -> Iterator[Finding]:
    if release.name and not release.takes_devices:
        what = f"{release.name} {release.number} gives containers no devices by --device"
        why = f"commands of modules use --{vendor.option} here, and `singularity exec $SIF` gets no GPU libraries"
        yield Finding(WARNING, _KEY, what, why, f"use Apptainer 1.5 or later, or leave {_KEY} out")
        return
    what = "no variable stands for --device: commands of modules pass it, and plain `singularity exec` does not"
    yield Finding(NOTE, _KEY, what, "", f"write: singularity exec --device {setup.device} $SIF ...")


def _files(vendor: Vendor, setup: Setup, release: Release, files: Sequence[CdiFile]) -> Iterator[Finding]:
    for file in files:
        if file.problem:
            yield Finding(WARNING, "CDI", f"'{file.path}': {file.problem}", "its devices are not known here")
    kind, _, name = setup.device.partition("=")
    own = [file for file in files if file.kind == kind]
    having = [file for file in own if name in file.devices]
    if not having:
        where = " and ".join(map(str, FOLDERS))
        what = f"no file of {where} has the device {setup.device}" if not own else f"'{own[0].path}' has no '{name}'"
        yield Finding(PROBLEM, "CDI", what, "no container starts with it", _again(setup, *own[:1]))
        return
    folders = [file.path.parent for file in having]
    doubled = [file for file in having if folders.count(file.path.parent) > 1]
    if doubled:
        what = f"{setup.device} is in several files of a folder: {_some([str(file.path) for file in doubled])}"
        yield Finding(PROBLEM, "CDI", what, "the runtime refuses a name of two meanings", "remove all but one")
    # that of a later folder is used (container-device-interface 1.1, pkg/cdi/cache.go)
    having = [file for file in having if file.path.parent == folders[-1]]
    wrong = [finding for file in having for finding in _compared(vendor, setup, file)]
    yield from wrong
    for file in having if not wrong else ():
        what = f"'{file.path}': {len(file.devices)} devices, {len(file.mounts)} files, as they are on this host"
        yield Finding(OK, "CDI", what)
    library = vendor.driver_library
    if library and release.takes_devices and not any(_has(file, library) for file in having):
        by_hook = f"a hook may make it, and {release.name} {release.number} runs no hooks: "
        why = f"{by_hook if any(file.has_hooks for file in having) else ''}programs find no GPU unless the image has it"
        remedy = f"add a mount of {library} to the file, or leave {_KEY} out"
        yield Finding(WARNING, "CDI", f"'{having[0].path}' mounts no {library}", why, remedy)


def _compared(vendor: Vendor, setup: Setup, file: CdiFile) -> Iterator[Finding]:
    """Compare one file with what is on this host: a driver that changed leaves it behind."""
    gone = [path for path in (*file.nodes, *(source for source, _target in file.mounts)) if not _exists(path)]
    if gone:
        what = f"'{file.path}' names {_some(gone)}, which this host lacks"
        why = "no container starts with it: it was written for another driver, or for other GPUs"
        yield Finding(PROBLEM, "CDI", what, why, _again(setup, file))
    lacking = sorted({*glob.glob(vendor.gpus)} - {*file.nodes})  # noqa: PTH207 - the pattern is absolute
    if lacking:
        what = f"'{file.path}' does not name {_some(lacking)}"
        yield Finding(WARNING, "CDI", what, "containers that hide other devices lack this GPU", _again(setup, file))


def _exists(path: str) -> bool:
    """Return whether a path is there, as far as this user can tell."""
    try:
        return not path.startswith("/") or Path(path).stat() is not None
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)


def _has(file: CdiFile, library: str) -> bool:
    return any(PurePosixPath(target).name == library for _source, target in file.mounts)


def _some(paths: Sequence[str]) -> str:
    return few([f"'{path}'" for path in paths])


def _again(setup: Setup, *files: CdiFile) -> str:
    """Return what to type to write a file anew, or else the usual one."""
    command, _, usual = setup.written_by.partition("=")
    return f"as root: {command}={shell(str(files[0].path)) if files else usual}"
