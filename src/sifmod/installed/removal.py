"""Remove an installation: module, scripts, image and, once it is copied elsewhere or given up, user software.

The module file is removed first, so that nobody loads it any more. Then the directory is renamed, so that it disappears
at once, and its files are deleted. The next removal deletes what a killed one leaves.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Optional

from sifmod import names
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import CommandError, InstallError, os_errors
from sifmod.host.command import run
from sifmod.host.files import content_of, copy_below, folders_below, held_folder, sha256_of
from sifmod.host.owners import no_permission, owner_of
from sifmod.host.writing import keep_as, remove_tree
from sifmod.inside.trees import FOLDER_MODES
from sifmod.install.oldimages import remove_old_images
from sifmod.install.rollback import settle
from sifmod.installed.installation import REMOVING, Installation, folders_in
from sifmod.installed.kept import contents, write_record
from sifmod.installed.lock import check_lock, hold_lock
from sifmod.installed.verification import difference_from_packed
from sifmod.site.settings import ASK_OWNER
from sifmod.text.printable import printable
from sifmod.usersoftware.commands import others_among_commands
from sifmod.usersoftware.state import DIRECTORY, is_untouched
from sifmod.usersoftware.tree import dangling_link, restore_modes, split_installation, user_modes

# Which copies of user software there were, while a directory is packed to be kept.
_ASIDE = f"{names.OURS}aside"

# What packing changes, in the order in which it is restored: the directory is in use as soon as its mark is back.
_PACKING = (
    names.USER_SOFTWARE_UNPACKED,
    names.USER_SOFTWARE_SHA256,
    names.USER_SOFTWARE_PREVIOUS,
    names.USER_SOFTWARE_PACKED,
    names.USER_SOFTWARE_LIST,
)

# At the top level, besides files of the manifest and user software: EasyBuild's logs, and what a killed run left.
_KNOWN = ("easybuild",)
_OF_RUNS = (names.OURS, ".packing.", ".unpacking.", ".layering.")


@dataclass(frozen=True)
class Removal:
    """The removal of one installation; `say` is called with one line at the start of each action."""

    installation: Installation
    say: Callable[[str], None]
    ask_owner: str = ASK_OWNER

    @property
    def users_own(self) -> tuple[Path, ...]:
        """The users' files: user software that is not empty, and what was set aside or replaced."""
        root = self.installation.root
        found = set(split_installation(root)[0])
        found -= {root / names.USER_SOFTWARE_UNPACKED, root / names.USER_SOFTWARE_LIST, root / names.USER_SOFTWARE_LOCK}
        found.discard(root / names.USER_SOFTWARE_SHA256)
        found -= {root / names.USER_COMMANDS}  # made from user software; what else is in it is among `others`
        directory = root / names.USER_SOFTWARE_DIRECTORY
        if directory in found and is_untouched(directory, venv=self.installation.manifest.venv):
            found.remove(directory)
        return tuple(sorted(found))

    @property
    def others(self) -> tuple[Path, ...]:
        """What neither sifmod nor EasyBuild has installed and is no user software: folders where all in them is so."""
        root, files = self.installation.root, {*self.installation.manifest.files}
        folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}

        def look(path: Path) -> Iterator[Path]:
            name = str(path.relative_to(root))
            if path.is_dir() and not path.is_symlink():
                if name not in folders:
                    yield path
                    return
                for entry in sorted(path.iterdir()):
                    yield from look(entry)
            elif name not in files:
                yield path

        tops = [path for path in split_installation(root)[1] if path.name not in _KNOWN]
        found = [path for top in tops if not top.name.startswith(_OF_RUNS) for path in look(top)]
        return (*found, *others_among_commands(root))

    def check(self) -> None:
        """Refuse an installation that is a copy or elsewhere, may not be written, or is in use by another run."""
        root, space = self.installation.root, self.installation.space
        subdir = PurePosixPath(self.installation.subdir)
        if ".." in subdir.parts or subdir.is_absolute() or root.parts[-len(subdir.parts) :] != subdir.parts:
            raise InstallError(
                f"'{root}' is a copy of module '{self.installation.module}' (its manifest names another path): remove "
                "it by hand"
            )
        below = [root, *root.parents][: len(subdir.parts)]
        if below[-1].parent.resolve() != space.software.resolve():
            whose = f"'{root}', which belongs to {owner_of(root)},"
            raise InstallError(f"{whose} is not in '{space.software}': name its software space with --prefix")
        for path in below:
            if path.is_symlink():
                raise InstallError(
                    f"'{path}' is a link to '{path.readlink()}': links are not followed. Remove it by hand"
                )
        # with --read-only-installdir EasyBuild takes write permission even from the owner, who can give it back
        places = (path for path in folders_below(root) if path.lstat().st_uid != os.geteuid())
        for path in (root.parent, *(file.parent for file in self.installation.module_files), *places):
            if not os.access(path, os.W_OK | os.X_OK):
                raise no_permission(path, self.ask_owner)
        check_lock(space.lock(root))

    def remove(self, *, keep: Optional[Path], delete_others: bool = False) -> None:
        """Remove the installation, after its user software was copied to `keep`; `others` are refused or deleted too.

        Raises:
            InstallError: a step failed; user software that is not in `keep` yet is still in place.
        """
        self.check()
        root = self.installation.root
        trash = root.with_name(f"{REMOVING}{root.name}.{uuid.uuid4().hex[:8]}")
        with hold_lock(self.installation.space.lock(root)):
            self.check_module_files()
            if not delete_others:
                self.check_others()
            if not os.access(root, os.W_OK):
                with held_folder(root) as (place, mode):
                    place.chmod(mode | stat.S_IRWXU)
            with _unpacked_again(root) if keep else contextlib.nullcontext():
                if keep:
                    self._pack_for_keeping()
                with user_software_lock(root):
                    if keep:
                        self._keep(keep)
                    self._remove_module_files()
                    with os_errors(InstallError, f"renaming '{root}' failed"):
                        root.rename(trash)
        link = trash / names.USER_SOFTWARE_DIRECTORY
        if link.is_symlink():
            self.say(f"leaving {link.resolve()}: 'user-software' was a link to it, and links are not followed")
        self.say(f"removing {root}")
        _remove_tree(trash)
        with contextlib.suppress(OSError):
            root.parent.rmdir()

    def check_module_files(self) -> None:
        """Refuse an installation if a module file that loads it would stay, or may do so somewhere."""
        item, top = self.installation, self.installation.space.modules
        elsewhere = [path for path in self._own_module_files() if not _is_below(path, top)]
        if elsewhere:
            raise InstallError(
                f"{', '.join(map(repr, map(str, elsewhere)))} would stay: EasyBuild's settings here put module files "
                f"into '{top}'. Set EASYBUILD_INSTALLPATH_MODULES as for eb; if the module is in several trees, delete "
                "it from the others first"
            )
        if all(path.is_symlink() for path in item.module_files) and not os.path.lexists(item.root / names.REMOVING):
            places = ", ".join(f"'{path}'" for path in item.manifest.module_files) or f"it is not in '{top}'"
            raise InstallError(
                f"no module file of {item.module} was found ({places}), and one that is elsewhere would stay: set "
                "EasyBuild's variables as for eb, or write it again with: eb --module-only --rebuild"
            )

    def check_others(self) -> None:
        """Refuse an installation that contains files which sifmod did not install."""
        others = self.others
        if others:
            root = self.installation.root
            named = ", ".join(str(path.relative_to(root)) for path in others)
            raise InstallError(
                f"'{root}' contains files that sifmod did not install ({printable(named)}): move them away, or delete "
                "them with --delete-other-files"
            )

    def remove_old_images(self) -> tuple[Path, ...]:
        """Remove the images of the installation before this one, and return their paths, or raise InstallError."""
        self.check()
        root = self.installation.root
        with hold_lock(self.installation.space.lock(root)):
            if any(root.glob(f"{names.OURS}*")):
                settled = settle(root)
                if settled:
                    self.say(settled)
            return tuple(root / name for name in remove_old_images(root))

    def _pack_for_keeping(self) -> None:
        """Pack the directory if users have added something to it; make-squashfs takes its own lock."""
        state = self.installation.user_software
        if state.state != DIRECTORY or state.directory not in self.users_own:
            return
        self.say("packing the user software")
        command = [str(self.installation.root / "bin" / "make-squashfs"), "--verify=full"]
        command += ["--replace"] if state.has_packed else []
        try:
            done = run(command)
        except CommandError as error:
            raise InstallError(f"{error}; nothing was removed") from error
        if done.status:
            raise InstallError(f"packing the user software failed, and nothing was removed: {done.last_lines}")

    def _keep(self, folder: Path) -> None:
        """Copy the users' files into a folder of the module's below `folder`, each file whole or not at all."""
        own = self.users_own
        if not own:
            self.say("there is no user software to keep")
            return
        root = self.installation.root
        directory = root / names.USER_SOFTWARE_DIRECTORY
        problem = dangling_link(root)
        if problem and root / names.USER_SOFTWARE_PACKED not in own:
            raise InstallError(f"{problem}: is its file system mounted here? Nothing was removed")
        if directory in own and not problem:
            if self.installation.user_software.state == DIRECTORY:
                raise InstallError(
                    f"the user software in '{root}' was unpacked meanwhile: nothing was removed, try again"
                )
            # a shell that was started before the packing goes on using the directory
            difference = difference_from_packed(self.installation)
            if difference:
                raise InstallError(
                    f"'{directory}' is not in use and differs from the packed file ({difference}): pack it with "
                    "make-squashfs --replace, or remove it. Nothing was removed"
                )
        self.copy_out({*own} - {directory}, folder)  # the packed file holds what the directory does

    def copy_out(self, own: Collection[Path], folder: Path) -> Path:
        """Copy users' files into a folder of the module's below `folder`, each whole or not at all, with a record."""
        root = self.installation.root
        name = folder / self.installation.module.replace("/", "-")
        copied = []
        try:
            with _opened(name) as target:
                try:
                    beside = {root / names.USER_SOFTWARE_LIST, root / names.USER_SOFTWARE_SHA256}
                    for path in sorted({*own, *beside}):
                        if os.path.lexists(path):
                            self.say(f"copying {path.name} to {name}")
                            is_new = not os.path.lexists(target / path.name)
                            _copy(path, target / path.name)
                            if is_new:
                                copied.append(target / path.name)
                    write_record(self.installation, target)
                except BaseException as error:
                    # when it is packed again it has other bytes, for which these would be in the way
                    for path in copied:
                        _remove_tree(path)
                    if isinstance(error, InstallError):
                        raise InstallError(str(error).replace(str(target), str(name))) from error
                    raise
        except BaseException:
            with contextlib.suppress(OSError):
                name.rmdir()
            raise
        return name

    def _own_module_files(self) -> Iterator[Path]:
        """Yield what loads this installation: links first, then the module files that they lead to.

        The manifest is not trusted: a file that it names is looked at.
        """
        item = self.installation
        files = [path for path in item.module_files if not path.is_symlink() and item.is_named_in(_text(path))]
        targets = {path.resolve() for path in files}
        links = (path for path in item.module_files if path.is_symlink())
        yield from (path for path in links if not path.exists() or path.resolve() in targets)
        yield from files

    def _backups(self, path: Path) -> list[Path]:
        """Return the copies of a module file that `eb --module-only` has made beside it (back_up_file)."""
        stem = re.escape(path.name.removesuffix(".lua"))
        found = [one for one in path.parent.iterdir() if re.fullmatch(rf"\.?{stem}\.bak_\d+_\d+", one.name)]
        return [one for one in found if not one.is_symlink() and self.installation.is_named_in(_text(one))]

    def _remove_module_files(self) -> None:
        own = tuple(self._own_module_files())
        mark = self.installation.root / names.REMOVING
        try:
            with contextlib.suppress(FileExistsError):
                mark.touch(exist_ok=False)  # from here on the next run can finish what a killed one left
        except OSError as error:
            raise InstallError(f"'{mark}' can't be written: {error.strerror}; nothing was removed") from error
        for path in self.installation.module_files:
            if path not in own:
                self.say(f"leaving {path}: it belongs to another installation")
        for path in own:
            with os_errors(InstallError, f"removing '{path}' failed"):
                self.say(f"removing {path}")
                for backup in self._backups(path):
                    backup.unlink()
                path.unlink()
                default = path.parent / "default"  # a link, from eb --set-default-module
                if default.is_symlink() and not default.exists():
                    default.unlink()
                with contextlib.suppress(OSError):
                    path.parent.rmdir()


def remove_leftovers(space: SoftwareSpace, wanted: str) -> tuple[Path, ...]:
    """Remove what killed removals of a module, NAME or NAME/VERSION, have left, and return the folders that held it."""
    found = {}
    for path in folders_in(space):
        if path.name.startswith(REMOVING):
            root = path.with_name(path.name[len(REMOVING) :].rpartition(".")[0])
            if _is_meant(wanted, str(root.relative_to(space.software))):
                found[path] = root
    for path, root in found.items():
        with hold_lock(space.lock(root)):
            _remove_tree(path)
        with contextlib.suppress(OSError):
            root.parent.rmdir()
    return tuple(found)


def _is_meant(wanted: str, subdir: str) -> bool:
    """Return whether a name means the installation of a path, to which a naming scheme may add folders or a dot."""
    names_of = [f"/{name.strip('/')}".replace("/.", "/") for name in (wanted, subdir)]
    return "/" in wanted.strip("/") and (names_of[0].endswith(names_of[1]) or names_of[1].endswith(names_of[0]))


def _text(path: Path) -> str:
    with os_errors(InstallError, f"the module file '{path}' can't be read"):
        return content_of(path).decode(errors="replace")


def _is_below(path: Path, top: Path) -> bool:
    """Return whether a file is below a folder, by its name or where links lead."""
    return path.is_relative_to(top) or path.parent.resolve().is_relative_to(top.resolve())


@contextlib.contextmanager
def _unpacked_again(root: Path) -> Iterator[None]:
    """If the block fails, restore what packing in it has changed: the packed files, and which copy is in use."""
    aside = root / _ASIDE
    present = [name for name in _PACKING if os.path.lexists(root / name)]
    try:
        modes = user_modes(root)
        remove_tree(aside)
        aside.mkdir()
        for name in present:
            keep_as(root / name, aside / name)
    except OSError as error:
        raise InstallError(f"keeping the state of '{root}' failed: {error.strerror}; nothing was removed") from error
    try:
        yield
    except BaseException:
        with user_software_lock(root):
            for name in _PACKING:
                if name in present:
                    (aside / name).replace(root / name)
                else:
                    (root / name).unlink(missing_ok=True)
            # packing has taken write permission from the directory
            restore_modes(root, modes)
            if root / names.USER_SOFTWARE_DIRECTORY / FOLDER_MODES not in modes:
                (root / names.USER_SOFTWARE_DIRECTORY / FOLDER_MODES).unlink(missing_ok=True)
        raise
    finally:
        with contextlib.suppress(OSError):
            remove_tree(aside)


@contextlib.contextmanager
def user_software_lock(root: Path) -> Iterator[None]:
    """Hold the lock of make-squashfs and unmake-squashfs."""
    lock = root / names.USER_SOFTWARE_LOCK
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    if os.path.lexists(lock) and not stat.S_ISREG(lock.lstat().st_mode):
        raise InstallError(
            f"'{lock}' is no plain file, but should be a lock file: find out who put it there, and remove it"
        )
    with os_errors(InstallError, f"the lock in '{root}' can't be taken"):
        try:
            descriptor = os.open(lock, flags | os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            # created by a member of the group with a stricter umask: read permission is enough to lock it
            descriptor = os.open(lock, flags | os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InstallError(
                f"make-squashfs or unmake-squashfs is running in '{root}': wait until it ends"
            ) from error
        except OSError as error:
            raise InstallError(f"the lock in '{root}' can't be taken: {error.strerror}") from error
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(name: Path) -> Iterator[Path]:
    """Yield a folder of this user's, which is made if needed, by a path that leads to it whatever is done to its name.

    Where others may rename it, the name could lead to the installation a moment later.
    """
    try:
        name.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise InstallError(f"creating '{name}' failed: {error.strerror}; nothing was removed") from error
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise InstallError(f"'{name}' belongs to {owner_of(name)}: choose another folder; nothing was removed")
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder, whole or not at all; the copy of a file is compared before it gets its name."""
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        if os.path.lexists(target):
            if contents(target.parent, target.name) == contents(source.parent, source.name):
                return
            raise InstallError(f"'{target}' already exists with other content: choose another folder")
        copy_below(Path(os.path.realpath(source.parent)), source.name, draft)
        if not draft.is_dir() and sha256_of(draft) != sha256_of(source):
            raise InstallError(f"the copy of '{source}' in '{target.parent}' differs from it; nothing was removed")
        draft.rename(target)
    except OSError as error:
        raise InstallError(
            f"copying '{source}' to '{target.parent}' failed: {error.strerror}; nothing was removed"
        ) from error
    finally:
        _remove_tree(draft)


def _remove_tree(top: Path) -> None:
    try:
        remove_tree(top)
    except OSError as error:
        raise InstallError(
            f"'{top}' can't be removed completely ({error}); it is no longer in use. Try again, or remove it by hand"
        ) from error
