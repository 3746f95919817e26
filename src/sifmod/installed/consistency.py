"""Whether the packages of user software fit each other and the image's, told by the container or by files alone."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import packaging.requirements

from sifmod import names
from sifmod.errors import CommandError, ImageError
from sifmod.finding import NOTE, OK, WARNING, Finding
from sifmod.host.files import content_of
from sifmod.host.runtime import look
from sifmod.image.files import ImageFiles
from sifmod.image.inspection import open_image
from sifmod.inside.consistency import Package, named, package_of, source_of_editable
from sifmod.installed.installation import Installation
from sifmod.usersoftware.layers import layer_findings
from sifmod.usersoftware.state import DIRECTORY, PACKED, sum_findings

_TOPIC = "packages"
_PROGRAM = f"runscripts/{names.CONSISTENCY}"
_MOST_METADATA = 20_000  # packages in all virtual environments
_LONGEST_LINE = 2000


def packages_in_container(installation: Installation) -> Iterator[Finding]:
    """Compare the packages of user software with each other and with the image's, in the container."""
    if not _has_packages(installation):
        return
    if _PROGRAM not in installation.manifest.files:  # of an earlier release
        yield from packages_on_disk(installation)
        return
    command = [str(installation.root / "bin" / "list-packages"), "--check"]
    try:
        done = look(command)
    except CommandError as error:
        yield Finding(NOTE, _TOPIC, f"they were not compared: {error}")
        return
    lines = [line[:_LONGEST_LINE] for line in done.stdout.splitlines()]
    if done.status == 0 and lines:
        yield Finding(OK, _TOPIC, lines[-1])
    elif done.status == 1 and lines:
        yield from (_misfit(line, installation.user_software.state) for line in lines)
    else:
        yield Finding(NOTE, _TOPIC, f"they were not compared: {done.last_lines}")


def problems_after_install(installation: Installation) -> Iterator[str]:
    """Yield what an install warns of: a reinstall keeps what users have, damaged or not."""
    state, root = installation.user_software, installation.root
    for finding in (*sum_findings(state), *layer_findings(root, sums=True)):
        yield f"{finding.what}: {finding.why}. {finding.remedy}"
    # of a base that has changed since a member's own packages were installed
    for finding in packages_in_container(installation) if installation.manifest.bases else ():
        if finding.severity == WARNING:
            yield f"{finding.what}: install it anew on what is below, with carry-over or pip"


def packages_on_disk(installation: Installation) -> Iterator[Finding]:
    """Compare the packages of user software with the list of the image's packages that the install wrote.

    The list lacks tools that build packages, so what seems to be missing may be in the image, and is not named.
    """
    if not _has_packages(installation):
        return
    state, image = installation.user_software, recorded_packages(installation.root)
    try:
        with open_image(state.directory if state.state == DIRECTORY else state.packed) as (_known, files):
            environments = [_own(files, folder) for folder in _folders(files)] if files else []
            markers = _markers(files, installation) if files else {}
        below = list(_below(installation))
    except ImageError as error:
        yield Finding(NOTE, _TOPIC, f"they were not compared: {error}")
        return
    lines: set[str] = set()
    for own in environments:
        lines.update(named(own, image, packaging.requirements, environment=markers, is_complete=False, below=below))
    yield from (_misfit(line, state.state) for line in sorted(lines))
    if not image:
        what = "the install listed no packages of the image to compare with (pip_constraints is off)"
        yield Finding(NOTE, _TOPIC, what, "", "compare them in the container: list-packages --check")
    elif not lines:
        what = "none is there twice or in a version that another does not fit"
        yield Finding(OK, _TOPIC, f"{what}; missing ones are found by list-packages --check")


def editable_packages(installation: Installation) -> list[tuple[Package, str]]:
    """Return the packages of user software that are used from their sources, each with the folder of these."""
    state = installation.user_software
    if not _has_packages(installation):
        return []
    try:
        with open_image(state.directory if state.state == DIRECTORY else state.packed) as (_known, files):
            return [one for folder in _folders(files) for one in _editable(files, folder)] if files else []
    except ImageError:  # packages_on_disk says why
        return []


def _editable(files: ImageFiles[Any], folder: str) -> Iterator[tuple[Package, str]]:
    for name in [name for name in files.names(folder) if re.fullmatch(r"[^~].*\.dist-info", name)][:_MOST_METADATA]:
        source = source_of_editable(files.text(f"{folder}/{name}/direct_url.json"))
        package = package_of(files.text(f"{folder}/{name}/METADATA")) if source else None
        if package:
            yield package, source


def _has_packages(installation: Installation) -> bool:
    """Return whether users have installed something, as far as it can be told without reading a packed file."""
    state = installation.user_software
    return state.state == PACKED or (state.state == DIRECTORY and bool(state.packages))


def _misfit(line: str, state: str) -> Finding:
    what, remedy = line[:_LONGEST_LINE], "pip uninstall it, or install a version that fits"
    named = re.fullmatch(r"(.*): (pip install .*|unset PYTHONPATH)", what)
    if named:
        what, remedy = named.groups()
    if state == PACKED and remedy.startswith("pip "):
        remedy = f"unmake-squashfs, then {remedy}"
    return Finding(WARNING, _TOPIC, what, "programs may fail, or use another package than they were built with", remedy)


def recorded_packages(root: Path) -> list[Package]:
    """Return the packages of the image that the install recorded for pip; none if the easyconfig turns that off."""
    try:
        text = content_of(root / "runscripts" / names.CONSTRAINTS).decode(errors="replace")
    except OSError:
        return []
    pairs = (line.split("==", 1) for line in text.splitlines() if "==" in line)
    return [Package(name, version, ()) for name, version in pairs]


def _folders(files: ImageFiles[Any]) -> list[str]:
    """Return the folders of packages in all virtual environments of user software."""
    return [
        f"/venv/{venv}/lib/{library}/site-packages"
        for venv in files.names("/venv")
        for library in files.names(f"/venv/{venv}/lib")
        if re.fullmatch(r"python3\.\d+t?", library)
    ]


def _own(files: ImageFiles[Any], folder: str) -> list[Package]:
    # NAME-vVERSION is a stub for uv
    is_package = re.compile(r"[^~].*-[^v][^-]*\.dist-info|[^~].*\.egg-info").fullmatch
    entries = list(filter(is_package, files.names(folder)))
    texts = (
        files.text(f"{folder}/{name}/METADATA") or files.text(f"{folder}/{name}/PKG-INFO")
        for name in entries[:_MOST_METADATA]
    )
    return list(filter(None, map(package_of, texts)))


def _below(installation: Installation) -> Iterator[Package]:
    """Yield the packages of the layers that can be used, the first layer's first."""
    for layer in installation.layers:
        if not layer.problem:
            with open_image(layer.path) as (_known, files):
                if files:
                    for folder in _folders(files):
                        yield from _own(files, folder)


def _markers(files: ImageFiles[Any], installation: Installation) -> dict[str, str]:
    """Return what the markers of requirements mean in the container, whatever Python runs sifmod."""
    minor = installation.manifest.python_version
    config = files.text(f"/venv/{installation.manifest.venv}/pyvenv.cfg")
    full = re.search(rf"^version\s*=\s*({re.escape(minor)}\.\d+)\s*$", config, re.M)
    return {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": platform.machine(),
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": full[1] if full else f"{minor}.0",
        "python_version": minor,
        "sys_platform": "linux",
    }
