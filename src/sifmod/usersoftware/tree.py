"""User software: what users install on top of an image. sifmod makes its tree once, and never removes it."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.spec import ContainerSpec
from sifmod.errors import InstallError
from sifmod.host.command import WRITE_FROM_CONTAINER
from sifmod.host.files import chmod_below, content_of, each_level_a_call
from sifmod.host.runtime import ContainerRuntime
from sifmod.host.writing import write_whole
from sifmod.inside.trees import requirements
from sifmod.resources import program
from sifmod.text.package import package_of

# The parts of user software, and the suffix of each when it is set aside under another name.
PARTS = {
    names.USER_SOFTWARE_DIRECTORY: "",
    names.USER_SOFTWARE_PACKED: ".squashfs",
    names.USER_SOFTWARE_UNPACKED: ".unpacked",
    names.USER_SOFTWARE_SHA256: ".sha256",
    names.USER_SOFTWARE_LAYERS: ".layers",
    names.USER_SOFTWARE_LIST: ".txt",
}


def has_user_software(installdir: Path) -> bool:
    """Return whether an installation has user software, packed or not."""
    return any((installdir / name).exists() for name in (names.USER_SOFTWARE_DIRECTORY, names.USER_SOFTWARE_PACKED))


def dangling_link(installdir: Path) -> str:
    """Return what is wrong if the directory of user software is a link to a missing directory; else ''."""
    directory = installdir / names.USER_SOFTWARE_DIRECTORY
    if not directory.is_symlink() or directory.exists():
        return ""
    return f"'{directory}' is a link to '{os.readlink(directory)}', which does not exist"  # noqa: PTH115 - a Path would normalize the target


def packed_is_active(installdir: Path) -> bool:
    """Return whether the packed file takes precedence over the directory, by the same rule as the scripts."""
    directory, mark = installdir / names.USER_SOFTWARE_DIRECTORY, installdir / names.USER_SOFTWARE_UNPACKED
    return (installdir / names.USER_SOFTWARE_PACKED).is_file() and not (directory.is_dir() and mark.exists())


def layers_in(installdir: Path) -> tuple[Path, ...]:
    """Return the packed files of the layers, the newest first, by the same rule as the scripts.

    What has a mark is a layer no longer: only bind lists of an earlier time name it.
    """
    layers: list[Path] = []
    while len(layers) < names.MOST_LAYERS:
        path = installdir / names.USER_SOFTWARE_LAYERS / f"{len(layers) + 1}.squashfs"
        # not Path.is_file, which raises PermissionError in a folder of somebody else
        if not os.path.isfile(path) or os.path.isfile(path.with_suffix(names.LAYER_UNUSED)):  # noqa: PTH113
            break
        layers.insert(0, path)
    return tuple(layers)


def split_installation(installdir: Path) -> tuple[list[Path], list[Path]]:
    """Return the top level of an installation: what belongs to users, set aside or not, and everything else."""
    entries = sorted(installdir.iterdir()) if installdir.is_dir() else []
    # the lock too: it may be another member's
    users = [path for path in entries if path.name.lstrip(".").startswith(names.USERS)]
    return users, [path for path in entries if path not in users]


def user_modes(installdir: Path) -> dict[Path, int]:
    """Return the permission bits of all user software in an installation, without symbolic links."""
    modes = {}
    for top in split_installation(installdir)[0]:
        with each_level_a_call(top):
            paths = [top, *top.rglob("*")]
        for path in paths:
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode):
                modes[path] = stat.S_IMODE(mode)
    return modes


def restore_modes(installdir: Path, modes: Mapping[Path, int]) -> None:
    """Restore the permission bits that `user_modes` returned."""
    top = Path(os.path.realpath(installdir))
    for path, mode in modes.items():
        # a file that was removed or replaced, or belongs to another member, was not changed by this run
        with contextlib.suppress(OSError):
            chmod_below(top, path.relative_to(installdir), mode)


def make_user_software(
    directory: Path,
    runscripts: Path,
    image: Path,
    runtime: ContainerRuntime,
    spec: ContainerSpec,
    *,
    below: Sequence[Bind] = (),
    has_layers: bool = False,
) -> tuple[Bind, ...]:
    """Make a new tree with the virtual environment of a container that has a Python and names one.

    The directory must not exist. The container sees the folder as its runscripts, and the bind paths of layers below.
    With `has_layers` the environment finds the packages of layers that the installation has already.

    Returns:
        The bind paths that make the tree available in the container.

    Raises:
        InstallError: the image's Python failed; the message has its last lines.
    """
    binds = (Bind(str(directory), names.USER_SOFTWARE), Bind(str(runscripts), names.RUNSCRIPTS, "ro"), *below)
    (directory / "venv").mkdir(parents=True)
    python = spec.python.executable if spec.python else ""
    command = [
        python,
        "-I",
        "-",
        spec.venv_path,
        *([str(names.MOST_LAYERS), "pip"] if spec.bases or has_layers else []),
    ]
    runtime.run(image, command, binds=binds, stdin=program("venv"), time_limit=WRITE_FROM_CONTAINER)
    return binds


def python_version(installdir: Path, *, venv: str, recorded: str) -> str:
    """Return `major.minor` of the Python of user software: of its venv or another one; if only packed, as recorded."""
    folder = installdir / names.USER_SOFTWARE_DIRECTORY / "venv"
    for config in (folder / venv / "pyvenv.cfg", *sorted(folder.glob("*/pyvenv.cfg"))):
        if not config.is_file():
            continue
        match = re.search(r"^version\s*=\s*([0-9]{1,2}\.[0-9]{1,3})", content_of(config).decode(errors="replace"), re.M)
        if match:
            return match[1]
    return recorded


def set_aside(
    installdir: Path, version: str, *, note: Callable[[Sequence[tuple[Path, Path]]], None]
) -> tuple[tuple[Path, Path], ...]:
    """Rename the user software of an installation after the Python version, `major.minor`, that it was made for.

    `note` is called with the return value, before anything is renamed.

    Returns:
        Old and new path of each part; the last one is the list of its packages, if there is one.
    """
    stem = next(
        stem
        for stem in _stems(f"{names.USER_SOFTWARE_DIRECTORY}-python{version}")
        if not list(installdir.glob(f"{stem}*"))
    )
    directory, *_others, package_list = parts = tuple(installdir / name for name in PARTS)
    below = [path.with_suffix(".txt") for path in layers_in(installdir)]
    new_names = tuple(installdir / f"{stem}{suffix}" for suffix in PARTS.values())
    # beside a packed file in use, the list describes that file
    is_listed_anew = directory.is_dir() and not packed_is_active(installdir)
    try:
        lists = [content_of(path).decode(errors="replace") for path in below if path.is_file()]
        present = [os.path.lexists(path) or (path == package_list and bool(is_listed_anew or lists)) for path in parts]
        renames = tuple(itertools.compress(zip(parts, new_names), present))
        note(renames)
        for path, new in renames:
            if os.path.lexists(path):
                path.rename(new)
        if is_listed_anew:
            lists.insert(0, packages_in(new_names[0]))
        elif lists and new_names[-1].is_file():
            lists.insert(0, content_of(new_names[-1]).decode(errors="replace"))
        if lists:
            write_whole(new_names[-1], first_of_each("".join(lists)))
    except OSError as error:
        raise InstallError(f"renaming the user software in '{installdir}' failed: {error}") from error
    return renames


def _stems(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def first_of_each(text: str) -> str:
    """Return the lines of a list of packages without those of a package that an earlier line has."""
    lines: dict[str, str] = {}
    for line in text.splitlines():
        lines.setdefault(re.sub(r"[-_.]+", "-", re.split("==| @ ", line, maxsplit=1)[0]).lower(), line)
    return "".join(f"{line}\n" for line in lines.values())


def packages_in(directory: Path) -> str:
    """Return the packages installed in a tree, a line each, as `inside.trees.requirements` describes it.

    The metadata of user packages is not trusted: a line without a valid name and version is left out.
    """
    folders = sorted(directory.glob("venv/*/lib/python3*/site-packages"))
    lines = requirements(map(str, folders))
    return "".join(f"{line}\n" for line in lines if package_of(line))
