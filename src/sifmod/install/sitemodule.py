"""The files of a site's module, in a folder of modules."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sifmod.errors import SifmodError
from sifmod.host.files import content_of
from sifmod.host.writing import write_together
from sifmod.render.sitemodule import MARK, render_site_module, short_name
from sifmod.site.settings import Site

# Module tools hide names with a leading dot, and take ".lua" for the suffix of the file.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?<!\.lua)")


def site_module_name(name: str, site: Site) -> str:
    """Return the name of a site's module, by default `SITE-container`; SifmodError if it can't be one."""
    chosen = name or f"{short_name(site)}-container"
    if not _NAME.fullmatch(chosen):
        remedy = "use letters, digits, '_', '.', '+' and '-'" if name else "choose one with --name"
        raise SifmodError(f"'{chosen}' can't be the name of the module: {remedy}")
    return chosen


def write_site_module(folder: Path, name: str, site: Site) -> tuple[Path, ...]:
    """Write the module of a site in both languages, or nothing; return its files. A missing folder is made.

    Raises:
        SifmodError: the folder can't be written to, or another file has the name of one of the module's.
    """
    files = render_site_module(name, site)
    for path in map(folder.joinpath, files):
        if os.path.lexists(path) and not _is_ours(path):
            raise SifmodError(
                f"'{path}' is not a file of `sifmod site module`: move it away, or choose another --name or --output"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SifmodError(
            f"the folder '{folder}' can't be made: {error.strerror}. Choose another one with --output"
        ) from error
    write_together(folder, files, force=True)
    return tuple(map(folder.joinpath, files))


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    try:
        return MARK.encode() in b"\n".join(content_of(path).split(b"\n", 2)[:2])
    except OSError:
        return False
