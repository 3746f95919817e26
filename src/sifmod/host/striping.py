"""Layouts of large files on a Lustre file system: over how many storage targets `lfs` spreads each."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

from sifmod.errors import CommandError, InstallError
from sifmod.host.command import ask, run

_LFS = "lfs"
# What lfs says of a file on another file system (errno ENOTTY and EOPNOTSUPP).
_NO_LUSTRE = re.compile(r"inappropriate ioctl|operation not supported|not (on )?a lustre|not a mounted lustre", re.I)


@contextlib.contextmanager
def striped(target: Path, layout: str, *, warn: Callable[[str], object]) -> Iterator[Path]:
    """Yield the path to write a new large file to, which becomes the target at the end of the block.

    If Lustre refuses the layout, the file is written without it, and `warn` is called with a sentence.
    """
    if not _can_set(layout):
        yield target
        return
    # in a folder of its own, because a layout of the installation would also be that of a thousand small files
    with tempfile.TemporaryDirectory(prefix=".sifmod-striped-", dir=target.parent) as folder:
        stripe_folder(Path(folder), layout, warn=warn)
        draft = Path(folder, target.name)
        yield draft
        draft.rename(target)


def stripe_folder(folder: Path, layout: str, *, warn: Callable[[str], object]) -> None:
    """Set the layout that new files of a folder of this user get; on another file system than Lustre do nothing."""
    if not _can_set(layout):
        return
    status, said = ask([_LFS, "setstripe", *layout.split(), str(folder)])
    if status and not _NO_LUSTRE.search(said):
        warn(
            f"`lfs setstripe {layout}` failed for '{folder}' ({said}): the file is written with the layout of its "
            "folder. Correct 'stripe' in the site file, then run: sifmod restripe"
        )


def is_unstriped(path: Path, layout: str) -> bool:
    """Return whether a file lies on one storage target of Lustre, although the site's layout spreads such files."""
    if spreads_nothing(layout) or not _can_set(layout):
        return False
    # the fields as llapi_layout prints them: lcm_ of a layout of several components, lmm_ of one
    status, said = ask([_LFS, "getstripe", str(path)])
    if status:
        return False
    components = re.search(r"^\s*lcm_entry_count:\s*(\d+)", said, re.M)
    counts = re.findall(r"^\s*lmm_stripe_count:\s*(\d+)", said, re.M)
    return not (components and int(components[1]) > 1) and counts == ["1"]


def _can_set(layout: str) -> bool:
    """Return whether there is a layout, and on this node the command that sets it."""
    return bool(layout and shutil.which(_LFS))


def spreads_nothing(layout: str) -> bool:
    """Return whether a layout keeps every file on one target."""
    counts = re.findall(r"(?:^|\s)(?:-c|--stripe-count)\s+(\S+)", layout)
    return all(count == "1" for count in counts)


def restripe(path: Path, layout: str) -> None:
    """Give a file in use the site's layout: `lfs migrate` swaps a whole copy in; on InstallError it is as it was."""
    if not shutil.which(_LFS):
        raise InstallError("there is no command `lfs` on this node: run it on a node that mounts Lustre")
    try:
        done = run([_LFS, "migrate", *layout.split(), str(path)])
    except CommandError as error:
        raise InstallError(f"'{path}' is as it was: {error}") from error
    if done.status:
        raise InstallError(f"'{path}' is as it was, because `lfs migrate {layout}` failed: {done.last_lines}")
