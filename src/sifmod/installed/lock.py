"""EasyBuild's lock of an installation: while `sifmod` holds it no `eb` installs there, and the other way round."""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path, PurePath

from sifmod.errors import InstallError, os_errors
from sifmod.host.interruption import Interruption
from sifmod.host.writing import remove_tree

# In a lock of EasyBuild's that sifmod holds, and locked itself: so the lock of a killed sifmod is known as such.
_MARK = "sifmod"


def check_lock(lock: Path) -> None:
    """Refuse to work on an installation that an `eb` is working on."""
    if lock.exists() and not (lock / _MARK).exists():
        raise _locked(lock)


@contextlib.contextmanager
def hold_lock(lock: Path) -> Iterator[None]:
    """Hold a lock of EasyBuild's; release it also if a signal ends the block, and take over that of a killed sifmod.

    EasyBuild's are folders, because making one is atomic, and it looks whether there is anything of the name
    (easybuild.tools.filetools, create_lock and check_lock). This one is a link to a folder, which has its mark from the
    first moment.

    Raises:
        InstallError: somebody else holds it, or it can't be created.
    """
    interruption = Interruption()
    interruption.start()
    try:
        with _marked(lock):
            try:
                with interruption.delivered():
                    yield
            finally:
                _free(lock)
    finally:
        interruption.stop()


def _free(lock: Path) -> None:
    # at once, for who is killed while it loses its mark would leave what looks like an eb's
    with contextlib.suppress(OSError):
        made = lock.with_name(PurePath(lock.readlink()).name)
        drafts = {path for path in lock.parent.iterdir() if path.name.startswith(_draft_of(lock))}
        for left in drafts - {made}:  # by a sifmod that was killed
            remove_tree(left)
        lock.unlink()
        if made in drafts:
            remove_tree(made)
        return
    freed = lock.with_name(f"{lock.name}.freed")
    with contextlib.suppress(OSError):
        remove_tree(freed)
        lock.rename(freed)
        remove_tree(freed)


def _draft_of(lock: Path) -> str:
    """Return with what the name of a folder begins that becomes the lock."""
    return f".{lock.name}."


def _opened_mark(lock: Path) -> int:
    """Make the lock, as a link to a folder that has its mark already, or use the one that is there; open its mark."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock.parent.mkdir(parents=True, exist_ok=True)
    draft = lock.with_name(f"{_draft_of(lock)}{uuid.uuid4().hex[:8]}")
    draft.mkdir()
    try:
        descriptor = os.open(draft / _MARK, flags, 0o666)
    except FileNotFoundError:  # who holds the lock has taken it for one that is left
        raise _locked(lock) from None
    try:
        lock.symlink_to(draft.name)
        if not (lock / _MARK).exists():  # likewise, and the lock was free a moment later
            lock.unlink()
            raise FileExistsError
    except OSError as error:
        os.close(descriptor)
        remove_tree(draft)
        if not isinstance(error, FileExistsError):
            raise
        if not (lock / _MARK).exists():
            raise _locked(lock) from None
        return os.open(lock / _MARK, flags, 0o666)
    return descriptor


@contextlib.contextmanager
def _marked(lock: Path) -> Iterator[None]:
    """Make the lock and lock its mark."""
    with os_errors(InstallError, f"EasyBuild's lock '{lock}' can't be created"):
        descriptor = _opened_mark(lock)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(lock) from None
        except OSError as error:
            raise InstallError(f"EasyBuild's lock '{lock}' can't be taken: {error.strerror}") from error
        if not os.path.lexists(lock / _MARK):  # of a sifmod that has just ended
            raise _locked(lock)
        yield
    finally:
        os.close(descriptor)


def _locked(lock: Path) -> InstallError:
    return InstallError(
        f"eb, or another sifmod, is working on this module: wait until it ends. If none runs, remove the lock '{lock}'"
    )
