"""The installation that a module builds on: found by its name, in whoever's space, and checked."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from sifmod import names
from sifmod.container.inheritance import BUILDS_ON
from sifmod.container.spec import Base
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError, ParameterError
from sifmod.finding import NOTE, OK, PROBLEM, WARNING, Finding
from sifmod.host.owners import owner_of
from sifmod.install.manifest import Manifest, read_manifest
from sifmod.installed.installation import Installation, find_installation
from sifmod.installed.modulepath import roots_of_module
from sifmod.site.settings import ASK_OWNER, Site
from sifmod.usersoftware.layers import trees_below

_TOPIC = "bases"
_LEFT_OUT = "packages of it are missing in containers"
_AGAIN = "reinstall this module with: eb --rebuild"
_NEW_VERSION = "for the earlier name, or install your packages in a new version of this module with carry-over"
_IMAGE_CHANGED = "see what does not fit with list-packages --check; eb --rebuild takes note of the new image"
# A path, or the name of a module.
_WANTED = re.compile(r"(/[^/\x00-\x1f]+)+/?|[^/\s\x00-\x1f]+(/[^/\s\x00-\x1f]+)*")


def find_base(
    wanted: Any,
    space: SoftwareSpace,
    environ: Mapping[str, str],
    own: Optional[Path] = None,
    *,
    ask_owner: str = ASK_OWNER,
) -> Installation:
    """Return the installation that an easyconfig builds on, by module or path; not the new one of that name, `own`.

    Raises:
        ParameterError: there is none, or it can't be built on; the message says why.
    """
    if not isinstance(wanted, str) or not _WANTED.fullmatch(wanted):
        raise ParameterError(BUILDS_ON, wanted, "use the name of a module, such as 'PyTorch/2.7.1'")
    if {".", ".."} & set(wanted.split("/")):
        raise ParameterError(BUILDS_ON, wanted, "use neither '.' or '..' as a folder")
    try:
        if wanted.startswith("/"):
            return find_installation(space, wanted)
        for root in roots_of_module(wanted, environ, own):
            return find_installation(space, str(root))
        return find_installation(space, wanted)
    except InstallError as error:
        remedy = f"{error}. 'module avail' shows the modules of MODULEPATH"
        if isinstance(error.__cause__, PermissionError):
            remedy = f"you may not read '{error.__cause__.filename}': for permission, {ask_owner}"
        raise ParameterError(BUILDS_ON, wanted, remedy) from error


def bases_of(base: Installation, installdir: Path) -> tuple[Base, ...]:
    """Return what a new installation builds on, the nearest first, which is the one that its easyconfig names.

    Raises:
        ParameterError: it would build on itself, what is below has more layers than containers can have, or the base
            is of a sifmod that did not record what others take over.
    """
    manifest = base.manifest
    if not manifest.parameters:
        raise ParameterError(
            BUILDS_ON,
            base.module,
            f"'{base.root}' was installed by sifmod {manifest.tools.get('sifmod', '')}, which did not record its "
            f"parameters: its owner, {owner_of(base.root)}, reinstalls it with eb --rebuild",
        )
    bases = (identity(base.root, manifest), *manifest.bases)
    # also by another way to it, such as a link
    if os.path.realpath(installdir) in (os.path.realpath(one.root) for one in bases):
        chain = " builds on ".join(one.module for one in bases)
        raise ParameterError(BUILDS_ON, base.module, f"a circle: {chain}, which is this module")
    below = trees_below(tuple(one.root for one in bases if one.venv))
    if len(below) > names.MOST_LAYERS:
        raise ParameterError(
            BUILDS_ON,
            base.module,
            f"containers can have {names.MOST_LAYERS} layers, and there would be {len(below)}; the first one too many "
            f"is '{below[names.MOST_LAYERS]}'. Its owner can make one file of several: flatten-layers",
        )
    return bases


def identity(root: Path, manifest: Manifest) -> Base:
    """Return how an installation is recorded in those that build on it."""
    return Base(
        module=manifest.full_module or manifest.module,
        root=str(root),
        settings=hashlib.sha256(json.dumps(dict(manifest.parameters), sort_keys=True).encode()).hexdigest(),
        venv=manifest.venv,
        python_version=manifest.python_version,
        image_id=manifest.image_id,
    )


def built_on(base: Installation, known: Iterable[Installation]) -> tuple[Installation, ...]:
    """Return the installations that build on one; there may be others than those that are known."""
    root = os.path.realpath(base.root)
    return tuple(one for one in known if root in (os.path.realpath(below.root) for below in one.manifest.bases))


def base_findings(installation: Installation, site: Site) -> Iterator[Finding]:
    """Yield what has changed of the installations that one builds on."""
    manifest = installation.manifest
    for number, base in enumerate(manifest.bases):
        what = f"'{base.root}' ({base.module})"
        try:
            present = read_manifest(Path(base.root))
        except InstallError as error:
            reason = "permission denied" if isinstance(error.__cause__, PermissionError) else str(error)
            yield Finding(PROBLEM, _TOPIC, f"{what} can't be read: {reason}", _LEFT_OUT, site.ask_owner)
            continue
        if present is None:
            why, remedy = _LEFT_OUT, f"{site.ask_owner}, or choose another base: change builds_on, then eb --rebuild"
            yield Finding(PROBLEM, _TOPIC, f"{what} is gone", why, remedy)
            continue
        now = identity(Path(base.root), present)
        if now.python_version != base.python_version:
            why = f"packages for Python {base.python_version} do not work with it, so the module can't be loaded"
            remedy = "reinstall this module with eb --rebuild, then install your packages with carry-over"
            yield Finding(PROBLEM, _TOPIC, f"{what} has Python {now.python_version} now", why, remedy)
            continue
        if now.venv and not trees_below([base.root]):
            what += " has no user software now that can be read"
            yield Finding(PROBLEM, _TOPIC, what, _LEFT_OUT, f"{site.ask_owner}: is its file system mounted?")
            continue
        if now.venv != base.venv:
            what += f" has the virtual environment '{now.venv}' now, and had '{base.venv}'"
            yield Finding(WARNING, _TOPIC, what, _LEFT_OUT, f"{site.ask_owner}, {_NEW_VERSION}")
        elif present.bases != manifest.bases[number + 1 :]:
            what += f" builds on {', '.join(one.root for one in present.bases) or 'nothing'} now"
            yield Finding(WARNING, _TOPIC, what, _LEFT_OUT, _AGAIN)
        elif now.image_id != base.image_id:
            what += " has another image than when this module was installed, with the same Python"
            yield Finding(NOTE, _TOPIC, what, "packages may need what the earlier image had", _IMAGE_CHANGED)
        elif now.settings != base.settings:
            what += " has other bind paths, variables or the like now"
            yield Finding(NOTE, _TOPIC, what, "this module has the earlier ones", _AGAIN)
        else:
            yield Finding(OK, _TOPIC, f"{what} is as it was when this module was installed")
