"""Rollback: files that a reinstall replaces are kept until the new installation has passed its checks.

A run undoes its own changes only (`undo`). What an earlier run left, because it was killed or stopped, may have been in
use for weeks: `settle` deals with it before anything else is changed. The manifest decides. It is put in place last, so
if it is the new one, the new installation is complete and stays; otherwise the old one is restored.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Optional

from sifmod import names as known
from sifmod.errors import InstallError, os_errors
from sifmod.host.files import content_of, inside
from sifmod.host.writing import keep_as, remove_tree, write_whole
from sifmod.install.manifest import read_manifest

_JOURNAL = "journal.json"

# Identifies the run that wrote a journal: a killed run may have left one behind weeks ago.
_RUN = uuid.uuid4().hex


@dataclass(frozen=True)
class _Journal:
    """What to restore; all names are relative to the installation."""

    run: str  # the run that wrote it
    manifest: str  # SHA-256, in hexadecimal, of the manifest with which the new installation is whole
    kept: tuple[str, ...]  # files that were kept
    new: tuple[str, ...]  # files that did not exist
    # user software that was about to be set aside: old and new name of each part
    renames: tuple[tuple[str, str], ...] = ()
    free: tuple[str, ...] = ()  # names of user software that did not exist then


def remember(installdir: Path, names: Iterable[str], *, manifest: str) -> None:
    """Keep the present state of files that are about to be replaced, written or removed."""
    forget(installdir)
    previous = installdir / known.PREVIOUS
    kept, new = [], []
    with os_errors(InstallError, f"keeping the present installation in '{previous}' failed"):
        previous.mkdir(exist_ok=True)
        for name in sorted(set(names)):
            path = inside(installdir, name)
            if path.is_file() or path.is_symlink():
                target = inside(previous, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                keep_as(path, target)
                kept.append(name)
            else:
                new.append(name)
        digest = hashlib.sha256(manifest.encode()).hexdigest()
        _write_journal(previous, _Journal(_run(), digest, tuple(kept), tuple(new)))


def remember_renames(installdir: Path, renames: Sequence[tuple[Path, Path]], names: Iterable[str]) -> None:
    """Record which user software is about to be set aside, and which of its names will be free."""
    previous = installdir / known.PREVIOUS
    pairs = tuple((old.name, new.name) for old, new in renames)
    free = tuple(sorted(set(names) - {old for old, _new in pairs}))
    _write_journal(previous, replace(_read_journal(previous), renames=pairs, free=free))


def undo(installdir: Path) -> None:
    """Restore what this run has replaced, if it has; InstallError names the folder that holds what could not be."""
    previous = installdir / known.PREVIOUS
    if not os.path.lexists(previous / _JOURNAL):
        return
    try:
        journal = _read_journal(previous)
        if journal.run != _run():
            return
        _restore(installdir, journal)
    except (OSError, ValueError, InstallError) as error:
        raise InstallError(f"restoring the earlier installation failed ({error}); it is in '{previous}'") from error
    forget(installdir)


def settle(installdir: Path) -> str:
    """Clean up after an earlier run that was killed or stopped; call it only while no other run is active.

    The journal is not trusted: anyone who may write to the installation can change it. A name that leads out of the
    installation, by itself or through a link, is refused before anything is changed.

    Returns:
        A message for the user about what was done; empty if the installation was not affected.

    Raises:
        InstallError: the state can't be used; the message names the remedy.
    """
    previous = installdir / known.PREVIOUS
    try:
        for path in installdir.glob(f"{known.OURS}*"):  # the stage, and drafts of files
            if path != previous:
                remove_tree(path)
        if not os.path.lexists(previous / _JOURNAL):
            forget(installdir)
            return ""
        journal = _read_journal(previous)
        manifest = installdir / known.MANIFEST
        if manifest.is_file() and hashlib.sha256(content_of(manifest)).hexdigest() == journal.manifest:
            installed = read_manifest(installdir)
            for name in set(journal.kept) - set(installed.files if installed else journal.kept):
                inside(installdir, name).unlink(missing_ok=True)
            sentence = f"an earlier eb ended after it had replaced '{installdir}': what it installed is kept"
        else:
            aside = _restore(installdir, journal)
            sentence = f"an earlier eb ended while it replaced '{installdir}': the installation before it was restored"
            if aside:
                sentence += f"; user software made since then is now {', '.join(map(str, aside))}"
    except (OSError, ValueError, InstallError) as error:
        raise InstallError(
            f"an earlier eb ended while it replaced '{installdir}', and what it left can't be used ({error}). The "
            f"files of the installation before it are in '{previous}': if the module works, remove that and try again"
        ) from error
    forget(installdir)
    return sentence


def forget(installdir: Path) -> None:
    """Remove the kept state, the journal first: an incomplete state must not be restored."""
    previous = installdir / known.PREVIOUS
    with contextlib.suppress(OSError):
        if previous.is_symlink():
            previous.unlink()
        else:
            (previous / _JOURNAL).unlink()
    shutil.rmtree(previous, ignore_errors=True)


def _restore(installdir: Path, journal: _Journal) -> tuple[Path, ...]:
    """Restore the state of a journal, and return the new names of user software that was in the way."""
    previous = installdir / known.PREVIOUS
    kept = [(inside(previous, name), inside(installdir, name)) for name in journal.kept]
    new_files = [inside(installdir, name) for name in journal.new]
    renames = [(installdir / old, installdir / new) for old, new in journal.renames]
    for copy, path in kept:
        if os.path.lexists(copy):
            path.parent.mkdir(parents=True, exist_ok=True)
            copy.replace(path)
    for path in new_files:
        path.unlink(missing_ok=True)
    renamed = [(old, new) for old, new in renames if os.path.lexists(new)]
    # a run that was killed before its first rename has not freed any name
    free = [installdir / name for name in journal.free] if renamed or not renames else []
    ours = journal.run == _run()
    aside = [_make_way(path, ours=ours) for path in (*(old for old, _new in renamed), *free)]
    for old, new in renamed:
        new.rename(old)
    return tuple(path for path in aside if path)


def _write_journal(previous: Path, journal: _Journal) -> None:
    write_whole(previous / _JOURNAL, json.dumps(asdict(journal)))


def _read_journal(previous: Path) -> _Journal:
    """Return the journal, with renames at the top of the installation only."""
    path = previous / _JOURNAL
    for link in (previous, path):
        if link.is_symlink():
            raise ValueError(f"'{link}' is a symbolic link")
    try:
        data = json.loads(content_of(path).decode())
        pairs = tuple((old, new) for old, new in data["renames"])
        lists = (tuple(data["kept"]), tuple(data["new"]), pairs, tuple(data["free"]))
        journal = _Journal(data["run"], data["manifest"], *lists)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged") from error
    listed = (*journal.kept, *journal.new, *journal.free, *(name for pair in pairs for name in pair))
    for name in (journal.run, journal.manifest, *listed):
        if not isinstance(name, str):
            raise ValueError(f"it has {name!r} where a name is expected")  # noqa: TRY004 - of a file, not of a caller
    for name in (*journal.free, *(name for pair in pairs for name in pair)):
        if "/" in name or not name.startswith(known.USER_SOFTWARE_DIRECTORY):
            raise ValueError(f"{name!r} is not a name of user software")
    return journal


def _run() -> str:
    return f"{os.getpid()}-{_RUN}"


def _make_way(path: Path, *, ours: bool) -> Optional[Path]:
    """Free a name of user software: remove what this run made, but rename what users may have changed since."""
    if not os.path.lexists(path):
        return None
    if ours:
        remove_tree(path)
        return None
    names = (path.with_name(f"{path.name}-undone{number}") for number in itertools.count(1))
    return path.rename(next(name for name in names if not os.path.lexists(name)))
