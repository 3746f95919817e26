"""EasyBuild's lock of an installation: while `sifmod` holds it no `eb` installs there, and the other way round."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sifmod.errors import InstallError
from sifmod.host.files import remove_tree
from sifmod.host.interruption import Interruption

# In a lock of EasyBuild's that sifmod holds, and locked itself: so the lock of a killed sifmod is known as such.
_MARK = "sifmod"


def check_lock(lock: Path) -> None:
    """Refuse to work on an installation that an `eb` is working on.

    Raises:
        InstallError: with the path of its lock.
    """
    if lock.exists() and not (lock / _MARK).exists():
        raise _locked(lock)


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock of EasyBuild's, and free it also when a signal ends the block; that of a killed sifmod is taken over.

    These locks are folders, because making one is atomic (easybuild.tools.filetools, create_lock).

    Args:
        lock: the path that a software space has for it.

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
    freed = lock.with_name(f"{lock.name}.freed")
    with contextlib.suppress(OSError):
        remove_tree(freed)
        lock.rename(freed)
        remove_tree(freed)


@contextlib.contextmanager
def _marked(lock: Path) -> Iterator[None]:
    """Make the lock and lock its mark."""
    try:
        try:
            lock.mkdir(parents=True)
        except FileExistsError:
            if not (lock / _MARK).exists():
                raise _locked(lock) from None
        descriptor = os.open(lock / _MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise InstallError(f"EasyBuild's lock '{lock}' can't be created: {error.strerror}") from error
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
