"""What EasyBuild's own steps do to files of an installation, where they have no setting for it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional, Protocol

from sifmod.errors import InstallError


class Writer(Protocol):
    """What writes module files and links to them, so that a reader finds all of the old one or all of the new one."""

    def write(self, path: Path, text: str) -> None:
        """Write a module file."""

    def link(self, path: Path, target: Path) -> None:
        """Make a link to a module file."""


@contextmanager
def whole_module_files(block: Any, writer: Writer) -> Iterator[None]:
    """Let the step of an easyblock that writes its module file, and the links to it, do so through a writer.

    EasyBuild empties a module file before it writes it, and removes a link before it makes it. Everything else of its
    step (hooks, caches, defaults, its trace) stays as it is. So in EasyBuild 5.0.0 and 5.4.1, with which tests install
    (`test_oldest_and_newest_easybuild_install`).
    """
    from easybuild.framework import easyblock as framework

    generator, write_file = block.module_generator, framework.write_file

    def write(path: str, text: Any, *args: Any, **kwargs: Any) -> None:
        if path != block.mod_filepath:
            write_file(path, text, *args, **kwargs)
            return
        _make_folder_of(Path(path))
        writer.write(Path(path), text)

    def create_symlinks(suffixes: list[str], *_args: Any, **_kwargs: Any) -> None:
        for suffix in suffixes:
            path = Path(generator.get_module_filepath(mod_path_suffix=suffix))
            _make_folder_of(path)
            writer.link(path, Path(block.mod_filepath))

    framework.write_file, generator.create_symlinks = write, create_symlinks
    try:
        yield
    finally:
        framework.write_file = write_file
        del generator.create_symlinks


def _make_folder_of(path: Path) -> None:
    from easybuild.tools.filetools import mkdir

    mkdir(str(path.parent), parents=True)


def make_room_for_easyconfig(block: Any) -> None:
    """Remove the last easyconfig's copy if EasyBuild can't write over it; give a group the folder of its records.

    A copy has the mode of its original, so that of another member of a group can't be written, and one's own can be
    read-only. EasyBuild itself removes the whole installation before a rebuild.
    """
    from easybuild.framework import easyblock as framework
    from easybuild.tools.config import build_option, log_path
    from easybuild.tools.filetools import adjust_permissions

    if block.dry_run or block.cfg["stop"] or build_option("sanity_check_only"):
        return
    kept = Path(block.installdir, log_path(ec=block.cfg), block.cfg.filename())
    with contextlib.suppress(OSError):
        if kept.stat().st_uid != os.geteuid() or not os.access(kept, os.W_OK):
            kept.unlink()
    if build_option("set_gid_bit") and build_option("group_writable_installdir"):
        # EasyBuild moves such a folder into the installation, where a rename would keep the user's own group
        bits, group = stat.S_ISGID | stat.S_IWGRP, Path(block.installdir).stat().st_gid
        for records in Path(block.logfile).parent.glob(f"{framework.REPROD}*"):
            adjust_permissions(str(records), bits, onlydirs=True, group_id=group)


def check_is_not_loaded(name: str, root: Optional[str], *modules: str) -> None:
    """Say how to unload a module that EasyBuild does not install again while it is loaded.

    Raises:
        InstallError: EasyBuild has found a root of it, so it is loaded in this shell.
    """
    if root:
        loaded = os.environ.get("LOADEDMODULES", "").split(":")
        module = next((one for one in loaded if one in modules), name)
        raise InstallError(
            f"{name} is loaded in this shell ({root}), where it can't be installed. Type first: module unload {module}"
        )
