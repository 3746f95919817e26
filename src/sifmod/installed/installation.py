"""sifmod's installations in a software space, found by their manifests."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError
from sifmod.fetch.repository import image_in_repositories
from sifmod.host.files import content_of, walk
from sifmod.host.owners import owner_of
from sifmod.install.manifest import Manifest, image_of, read_manifest
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.printable import few
from sifmod.text.suggest import perhaps
from sifmod.usersoftware.layers import Layer, layers
from sifmod.usersoftware.state import UserSoftware, user_software

# Folders between the software folder and what is in an installation: a hierarchy with module classes has most of them,
# as in Compiler/GCC/13.2.0/ai/NAME/VERSION.
_DEPTH = 6
# At the top of an installation, and never the name of a software or a part of its path. `lib` is a module class.
_OF_AN_INSTALLATION = frozenset({"bin", "easybuild", "share"})
# How a removal renames an installation before it deletes it.
REMOVING = ".removing-"


@dataclass(frozen=True)
class Installation:
    """One installed container: its directory, `$CONTAINERROOT`, what was installed, and its software space."""

    root: Path
    manifest: Manifest
    space: SoftwareSpace

    @property
    def module(self) -> str:
        """Name of the module, as for `module load`."""
        return self.manifest.module

    @property
    def full_module(self) -> str:
        """EasyBuild's full module name, which tells modules of the same name in a hierarchy apart."""
        return self.manifest.full_module or self.module

    @property
    def name(self) -> str:
        """Name of the software."""
        return self.manifest.name or self.module.partition("/")[0]

    @property
    def version(self) -> str:
        """Full version of the software, prefix and suffix included."""
        return self.manifest.version or self.module.partition("/")[2]

    @property
    def subdir(self) -> str:
        """Path of the installation in the software folder that it was made for."""
        return self.manifest.install_subdir or self.module

    @property
    def made_by(self) -> str:
        """Version of the sifmod that wrote its scripts; empty if its manifest does not say so."""
        return self.manifest.tools.get("sifmod", "")

    @property
    def image(self) -> Path:
        """Path of the image: the installation's own, or the original if that is used in place."""
        return image_of(self.root, self.manifest)

    @property
    def has_image(self) -> bool:
        """Whether the image exists, as far as this user can see."""
        is_there = os.path.isdir if self.manifest.is_unpacked else os.path.isfile
        return is_there(self.image)

    @property
    def squashfs(self) -> Optional[Path]:
        """Path of the image's SquashFS; None if none was installed. It may have been deleted since."""
        return self.root / self.manifest.squashfs if self.manifest.squashfs else None

    @property
    def binds(self) -> tuple[str, ...]:
        """The bind paths of its containers, without those of features."""
        try:
            text = content_of(self.root / "runscripts" / names.VALUES).decode(errors="replace")
        except OSError:
            return ()
        lists = dict(re.findall(r"(?ms)^sifmod_(binds|optional_binds)=\((.*?)\)$", text))
        try:
            own, optional = (shlex.split(lists.get(name, "")) for name in ("binds", "optional_binds"))
        except ValueError:
            return ()
        return (*own, *(f"{argument}, if it is there" for argument in optional[1::2]))

    @property
    def old_images(self) -> tuple[Path, ...]:
        """Images of the installation before this one that are still there."""
        return tuple(self.root / name for name in self.manifest.old_images if (self.root / name).is_file())

    def stand_in(self, site: Site) -> Optional[Path]:
        """Return the site's copy, of the same name, size and identifier, which replaces a missing image; else None."""
        manifest = self.manifest
        if manifest.is_unpacked:
            return None
        return image_in_repositories(site, manifest.image, size=manifest.image_size, identifier=manifest.image_id)

    @property
    def bases_below(self) -> tuple[str, ...]:
        """The installations whose user software containers see below its own, the nearest first."""
        venv = self.manifest.venv
        return tuple(base.root for base in self.manifest.bases if venv and base.venv == venv)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of user software below its own, the nearest first."""
        return layers(self.root, self.bases_below)

    @property
    def user_software(self) -> UserSoftware:
        """The present state of the user software."""
        return user_software(self.root, venv=self.manifest.venv)

    @property
    def module_files(self) -> tuple[Path, ...]:
        """The existing module file and the links to it, such as those by module class, the file first."""
        if self.manifest.module_files:
            recorded = sorted(map(Path, self.manifest.module_files), key=lambda path: (os.path.islink(path), path))  # noqa: PTH114 - likewise
            return tuple(path for path in recorded if os.path.islink(path) or os.path.isfile(path))  # noqa: PTH113, PTH114 - likewise
        # an earlier sifmod recorded no paths, and knew one naming scheme
        found = []
        trees = sorted(self.space.modules.glob("*"), key=lambda path: (path.name != self.space.suffix, path.name))
        for tree in trees:
            # a hierarchical naming scheme keeps what needs no toolchain in Core
            for folder in (tree, tree / "Core"):
                paths = (folder / f"{self.module}{suffix}" for suffix in (".lua", ""))
                found += [path for path in paths if path.is_symlink() or path.is_file()]
        return tuple(found)

    @property
    def foreign_module_files(self) -> tuple[Path, ...]:
        """Module files that name another folder: they are another installation's, or this one was moved."""
        found = []
        for path in self.module_files:
            with contextlib.suppress(OSError):
                if not path.is_symlink() and not self.is_named_in(content_of(path).decode(errors="replace")):
                    found.append(path)
        return tuple(found)

    def answers_to(self, wanted: str) -> bool:
        """Return whether a user may mean this installation by a name."""
        return wanted in (self.module, self.full_module, self.name, f"{self.name}/{self.version}")

    def is_named_in(self, text: str) -> bool:
        """Return whether the text of a module, in Lua or Tcl, or of a script names this installation's directory."""
        root = str(self.root)
        in_shell = quoting.shell(root).strip("'")  # there it may be the beginning of a word
        return any(form in text for form in (root, quoting.lua(root), quoting.tcl(root), in_shell))

    def is_loaded(self, environ: Optional[Mapping[str, str]] = None) -> bool:
        """Return whether the module is loaded in an environment, `os.environ` by default."""
        environ = os.environ if environ is None else environ
        is_listed = self.module in environ.get("LOADEDMODULES", "").split(":")
        roots = (value for name, value in environ.items() if name.startswith("EBROOT"))
        return is_listed and any(Path(value) == self.root for value in roots)


@dataclass(frozen=True)
class Damaged:
    """A directory whose manifest can't be read, or a folder in which there may be installations; and what to do."""

    root: Path
    problem: str


@dataclass(frozen=True)
class Found:
    """What is in a software space: installations, sorted by module, and what can't be read or looked into."""

    installations: tuple[Installation, ...]
    damaged: tuple[Damaged, ...]


def find_installations(space: SoftwareSpace) -> Found:
    """Return all of sifmod in a software space, no other software; InstallError if the folder can't be read."""
    installations, damaged = [], []
    closed: list[Path] = []
    for root in folders_in(space, closed):
        if root.name.startswith("."):
            continue
        try:
            manifest = read_manifest(root)
        except InstallError as error:
            is_closed = isinstance(error.__cause__, PermissionError)
            damaged.append(Damaged(root, _may_not_be_read(root) if is_closed else str(error)))
            continue
        if manifest:
            installations.append(Installation(root, manifest, space))
    ours = [path for path in closed if _may_be_ours(space, path)]
    damaged += [Damaged(path, _may_not_be_read(path)) for path in ours]
    installations.sort(key=lambda item: (item.name.lower(), item.version, item.full_module))
    return Found(tuple(installations), tuple(sorted(damaged, key=lambda item: item.root)))


def find_installation(space: SoftwareSpace, wanted: str) -> Installation:
    """Return the installation of a module, NAME/VERSION or, if one version is installed, NAME; or at a path.

    Raises:
        InstallError: no installation matches, several do, or its manifest can't be read.
    """
    if wanted.startswith(("/", "./", "../", "~")):
        root = Path(wanted).expanduser().absolute()
        manifest = read_manifest(root)
        if manifest is None:
            raise InstallError(f"'{root}' is not an installation of sifmod: it has no {names.MANIFEST}")
        return Installation(root, manifest, space)
    found = find_installations(space)
    wanted = wanted.strip("/")
    matches = [item for item in found.installations if item.answers_to(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        versions = ", ".join(item.full_module for item in matches)
        raise InstallError(f"several versions of '{wanted}' are installed: choose one of {versions}")
    for item in found.damaged:
        if str(item.root).endswith((f"/{wanted}", f"/{wanted.partition('/')[0]}")):
            raise InstallError(item.problem)
    modules = [item.module for item in found.installations]
    more = ": sifmod list" if len(modules) > 10 else ""
    hint = f"; there are {few(modules, 10)}{more}" if modules else ", nor any other"
    raise InstallError(
        f"there is no module '{wanted}' of sifmod in '{space.software}'{perhaps(wanted, modules)}{hint}. Name "
        "another software space with --prefix or EASYBUILD_PREFIX"
    )


def _may_be_ours(space: SoftwareSpace, closed: Path) -> bool:
    """Return whether a module of sifmod names a folder, or a module of its name may not be read either."""
    shut: list[str] = []
    unread: list[OSError] = []
    for folder, _folders, files in walk(space.modules, unread):
        for path in (Path(folder, name) for name in files):
            try:
                text = b"" if path.is_symlink() else content_of(path)
            except OSError:
                shut.append(str(path))
                continue
            if names.WRITTEN_BY.encode() in text and str(closed) in text.decode(errors="replace"):
                return True
    shut += [str(error.filename) for error in unread]
    # by the name of the software or, in a hierarchy, any folder above an installation
    wanted = {*closed.relative_to(space.software).parts[:-1], closed.name}
    return any(not wanted.isdisjoint(re.split(r"/|\.lua$", path[len(str(space.modules)) :])) for path in shut) or (
        str(space.modules) in shut
    )


def _may_not_be_read(path: Path) -> str:
    return (
        f"'{path}' may not be read (it belongs to {owner_of(path)}): what is installed there was not looked at. If it "
        f"should be open: chmod -R a+rX {quoting.shell(path)}"
    )


def folders_in(space: SoftwareSpace, closed: Optional[list[Path]] = None) -> Iterator[Path]:
    """Yield the folders of a software space that have a manifest, and those that a removal was deleting.

    What EasyBuild's settings put between the software folder and an installation is walked through, and neither
    installations nor links are.
    """
    closed = [] if closed is None else closed
    folders = [(space.software, 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as error:
            if depth and isinstance(error, PermissionError):
                closed.append(folder)
            if depth or isinstance(error, FileNotFoundError):  # nothing is installed yet
                continue
            raise InstallError(f"can't list the software in '{folder}': {error.strerror}") from error
        if depth and not _OF_AN_INSTALLATION.isdisjoint(entry.name for entry in found):
            if any(entry.name == "share" and not os.access(entry.path, os.X_OK) for entry in found):
                closed.append(folder)  # its manifest would be in there
            continue
        for path in (Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)):
            if path.name.startswith(REMOVING) or os.path.lexists(path / names.MANIFEST):
                yield path
            # EasyBuild keeps its locks in .locks
            elif depth + 1 < _DEPTH and not path.name.startswith("."):
                folders.append((path, depth + 1))
