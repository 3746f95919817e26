"""The way back: what a reinstall replaces is kept until the new installation has passed its checks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sifmod.errors import InstallError

_PREVIOUS = ".sifmod-previous"
_JOURNAL = "journal.json"

# Who wrote a journal: one that a killed run has left behind may be weeks old.
_RUN = uuid.uuid4().hex


def remember(installdir: Path, names: Iterable[str]) -> None:
    """Keep the present state of files that are about to be replaced, written or removed.

    Args:
        installdir: the installation.
        names: paths of the files relative to it, those that do not exist yet included.

    Raises:
        InstallError: there is no room for it.
    """
    forget(installdir)
    previous = installdir / _PREVIOUS
    kept, new = [], []
    try:
        for name in sorted(set(names)):
            if (installdir / name).is_file():
                target = previous / name
                target.parent.mkdir(parents=True, exist_ok=True)
                _keep(installdir / name, target)
                kept.append(name)
            else:
                new.append(name)
        previous.mkdir(exist_ok=True)
        _write_journal(previous, {"run": _run(), "kept": kept, "new": new, "renames": [], "free": []})
    except OSError as error:
        raise InstallError(f"keeping the present installation in '{previous}' failed: {error.strerror}") from error


def remember_renames(installdir: Path, renames: Sequence[tuple[Path, Path]], names: Iterable[str]) -> None:
    """Note which user software is about to be set aside, and which of its names will be free.

    Args:
        installdir: the installation.
        renames: each path that there is, and the one that it will have.
        names: all names of user software: what has one of them afterwards was made by this run, or by users since.
    """
    previous = installdir / _PREVIOUS
    journal = json.loads((previous / _JOURNAL).read_text(encoding="utf-8"))
    journal["renames"] = [(str(old), str(new)) for old, new in renames]
    journal["free"] = sorted({str(installdir / name) for name in names} - {str(old) for old, _new in renames})
    _write_journal(previous, journal)


def undo(installdir: Path) -> None:
    """Bring the state back that was remembered; nothing happens where none was.

    Raises:
        InstallError: it can't be brought back; the message says where it is.
    """
    previous = installdir / _PREVIOUS
    if not (previous / _JOURNAL).is_file():
        return
    try:
        journal = json.loads((previous / _JOURNAL).read_text(encoding="utf-8"))
        for name in journal["kept"]:
            if (previous / name).exists():
                (installdir / name).parent.mkdir(parents=True, exist_ok=True)
                (previous / name).replace(installdir / name)
        for name in journal["new"]:
            (installdir / name).unlink(missing_ok=True)
        ours = journal["run"] == _run()
        renamed = [(Path(old), Path(new)) for old, new in journal["renames"] if Path(new).exists()]
        # a run that was killed before it renamed anything has freed no name
        for path in (*(old for old, _new in renamed), *(map(Path, journal.get("free", ())) if renamed else ())):
            _make_way(path, ours=ours)
        for old, new in renamed:
            new.rename(old)
    except (OSError, ValueError, KeyError) as error:
        raise InstallError(f"bringing the earlier installation back failed ({error}); it is in '{previous}'") from error
    forget(installdir)


def forget(installdir: Path) -> None:
    """Remove what was remembered: the journal first, because an incomplete past is not one to go back to."""
    with contextlib.suppress(OSError):
        (installdir / _PREVIOUS / _JOURNAL).unlink()
    shutil.rmtree(installdir / _PREVIOUS, ignore_errors=True)


def _keep(path: Path, target: Path) -> None:
    with contextlib.suppress(OSError):
        os.link(path, target)
        return
    shutil.copy2(path, target)


def _write_journal(previous: Path, journal: Mapping[str, Any]) -> None:
    draft = previous / f"{_JOURNAL}.new"
    draft.write_text(json.dumps(journal), encoding="utf-8")
    draft.replace(previous / _JOURNAL)


def _run() -> str:
    return f"{os.getpid()}-{_RUN}"


def _make_way(path: Path, *, ours: bool) -> None:
    """Free the name of user software: what this run has made goes, what users may have used since is renamed."""
    if not path.exists():
        return
    if not ours:
        names = (path.with_name(f"{path.name}-undone{number}") for number in itertools.count(1))
        path.rename(next(name for name in names if not name.exists()))
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
