"""Installations that users have without owning them: of the loaded module, and of the module files in MODULEPATH."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError, os_errors
from sifmod.host.files import content_of, walk
from sifmod.host.parallel import called_in_threads
from sifmod.install.manifest import read_manifest
from sifmod.installed.installation import Installation, find_installation, find_installations
from sifmod.site.settings import Site

# How many files of each folder in MODULEPATH, and links of each user, are looked at, and how large one may be.
_MOST_MODULES = 5000
_LARGEST = 1 << 20
# How EasyBuild's module files, in Lua and in Tcl, name the installation (module_generator, get_description).
_ROOT = re.compile(r'^(?:local root = "(?P<lua>/[^"\\\0]+)"|set root (?P<tcl>/[^\s\0]+))$', re.MULTILINE)

_NAME = re.compile(r"[\w+-][\w.+-]*(/[\w+-][\w.+-]*)*")


def find_usable(space: SoftwareSpace, wanted: str, environ: Mapping[str, str]) -> Installation:
    """Return the loaded installation if it is the wanted one, else one of the software space, else of `MODULEPATH`.

    Raises:
        InstallError: no module matches, several do, or a manifest can't be read.
    """
    root, manifest = environ.get("CONTAINERROOT", ""), None
    with contextlib.suppress(InstallError):  # one that is damaged need not be the wanted one
        manifest = read_manifest(Path(root)) if root else None
    if manifest and (loaded := Installation(Path(root), manifest, space)).answers_to(wanted):
        return loaded
    try:
        return find_installation(space, wanted)
    except InstallError:
        if not _NAME.fullmatch(wanted):
            raise
        found = dict.fromkeys(roots_of_module(wanted, environ)) or dict.fromkeys(_roots_in(environ, wanted))
        if not found:
            raise
    if len(found) > 1 and "/" not in wanted:
        versions = ", ".join(find_installation(space, str(one)).module for one in found)
        raise InstallError(f"MODULEPATH has several versions of '{wanted}': choose one of {versions}")
    return find_installation(space, str(next(iter(found))))


def roots_of_module(name: str, environ: Mapping[str, str], own: Optional[Path] = None) -> Iterator[Path]:
    """Yield the installations of the module files of a name, as Lmod finds them, if sifmod has made them."""
    for folder in _folders(environ):
        for path in (Path(folder, f"{name}.lua"), Path(folder, name)):
            root = _root_in(path)
            if root and root != own and _has_manifest(root):
                yield root


def announce(root: Path, site: Site) -> None:
    """Leave a link to an installation on another one in the site's folder for these, if it has one, or InstallError."""
    if not site.dependents_dir:
        return
    link = Path(site.dependents_dir, hashlib.sha256(os.fsencode(root)).hexdigest()[:16])
    with os_errors(InstallError, f"the owner of its base does not see this module: '{link}'"):
        if root not in _links_in(site.dependents_dir):
            # somebody else may have taken the name
            (link.with_name(f"{link.name}-{secrets.token_hex(4)}") if os.path.lexists(link) else link).symlink_to(root)


def known_installations(space: SoftwareSpace, environ: Mapping[str, str], site: Site) -> tuple[Installation, ...]:
    """Return the installations of a software space, of modules in `MODULEPATH`, and of the site's folder of links."""
    found = {os.path.realpath(one.root): one for one in find_installations(space).installations}
    for one in (*installations_in(environ, space), *_announced(site, space)):
        found.setdefault(os.path.realpath(one.root), one)
    return tuple(found.values())


def _announced(site: Site, space: SoftwareSpace) -> Iterator[Installation]:
    # a link is somebody's word: what counts is the manifest where it leads
    for root in _links_in(site.dependents_dir) if site.dependents_dir else ():
        if root.is_absolute() and _has_manifest(root):
            with contextlib.suppress(InstallError):
                yield find_installation(space, str(root))


def _links_in(folder: str) -> Iterator[Path]:
    """Yield where the links in a folder lead; all users make some there, so each user's are counted."""
    counts = Counter[int]()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # it was removed meanwhile, or is no link
                owner = entry.stat(follow_symlinks=False).st_uid
                counts[owner] += 1
                if counts[owner] <= _MOST_MODULES:
                    yield Path(entry.path).readlink()


def installations_in(environ: Mapping[str, str], space: SoftwareSpace) -> Iterator[Installation]:
    """Yield the installations of sifmod that modules in `MODULEPATH` name, each once, if they can be read."""
    seen = set()
    for root in _roots_in(environ):
        place = os.path.realpath(root)
        if place not in seen:
            seen.add(place)
            with contextlib.suppress(InstallError):
                yield find_installation(space, str(root))


def _roots_in(environ: Mapping[str, str], name: str = "") -> Iterator[Path]:
    """Yield the installations that modules of a name, or all modules, name: somebody else has made these folders."""
    for folder in _folders(environ):
        below = walk(Path(os.path.realpath(Path(folder, name))))
        folders = itertools.islice(below, 1 if name else _MOST_MODULES)
        paths = itertools.islice((Path(one, file) for one, _inner, files in folders for file in files), _MOST_MODULES)
        # a central stack has thousands, of which few are ours, and its file system may take a millisecond for each
        with called_in_threads(_root_in, [*paths]) as roots:
            yield from (root for root in (one.result() for one in roots) if root and _has_manifest(root))


def _folders(environ: Mapping[str, str]) -> Iterator[str]:
    return filter(None, environ.get("MODULEPATH", "").split(":"))


def _root_in(path: Path) -> Optional[Path]:
    """Return the installation that a module file of sifmod names; None if there is no such file that can be read."""
    try:
        text = content_of(path, most=_LARGEST)
    except OSError:
        return None
    found = _ROOT.search(text.decode(errors="replace")) if names.WRITTEN_BY.encode() in text else None
    return Path(found["lua"] or found["tcl"]) if found else None


def _has_manifest(root: Path) -> bool:
    """Return whether sifmod has installed something there, as far as it can be known: reading it says the rest."""
    try:
        os.lstat(root / names.MANIFEST)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
