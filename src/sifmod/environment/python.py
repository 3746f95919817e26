"""An environment from a file, as a module of its own: a definition, a lock and an easyconfig, made for a base image."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional

from sifmod.container.parameters import IMAGE_SOURCES
from sifmod.easyconfig.newimage import NewImage
from sifmod.easyconfig.proposal import Proposal, checked_name, checked_proposal
from sifmod.easyconfig.text import easyconfig_text, folded
from sifmod.environment.definition import WORK, Basis, basis, definition_text, writable
from sifmod.environment.lock import Locked, Platform, lock_text, read_lock
from sifmod.environment.requirements import Requirements
from sifmod.environment.resolution import Base, held_packages, without_held
from sifmod.errors import ImageError, SifmodError
from sifmod.host.runtime import find_runtime
from sifmod.install.pip import certificates
from sifmod.install.probe import PythonFacts
from sifmod.resources import program
from sifmod.site.settings import Site
from sifmod.text.quoting import shell, without_templates

DEFAULT_NAME, DEFAULT_VERSION = "environment", "1.0"

_POST = """\
    export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore{certificates}
    list_packages() {{
        {python} -I -m pip --disable-pip-version-check list --format=freeze
    }}
    list_packages >"$TMPDIR/base.txt"
    {python} -I - "$TMPDIR" <<'END'
{program}
END
    # these wheels and no others, also if a package requires more
    {python} -I -m pip --disable-pip-version-check install --no-cache-dir --only-binary :all: --require-hashes \\
        --no-index --find-links "$TMPDIR/wheels.html" --requirement "$TMPDIR/requirements.txt"
    list_packages >"$TMPDIR/all.txt"
    if grep -vxFf "$TMPDIR/all.txt" "$TMPDIR/base.txt"; then
        echo 'these packages of the base were replaced, so the image is not built' >&2
        exit 1
    fi
    rm -r {work}
"""


@dataclass(frozen=True)
class Environment:
    """The files of an environment, to be written beside each other, the easyconfig last; and its proposal."""

    files: Mapping[str, str]
    proposal: Proposal

    @property
    def text(self) -> str:
        """The text of the easyconfig."""
        return self.files[self.proposal.file_name]


@dataclass(frozen=True)
class Source:
    """The file that an environment is made from: either what requirements ask for, or the path of a lock."""

    requirements: Optional[Requirements] = None
    lock: Optional[Path] = None

    @property
    def origin(self) -> str:
        """Name of the file."""
        return self.requirements.origin if self.requirements else self.lock.name if self.lock else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the file was not read, a sentence each."""
        return self.requirements.notes if self.requirements else ()

    def named(self, name: str, version: str) -> tuple[str, str]:
        """Return name and version of the module: the given ones, else the project's, else the defaults."""
        own = self.requirements
        name = name or (own.name if own else "") or DEFAULT_NAME
        version = version or (own.version if own else "") or DEFAULT_VERSION
        return checked_name("name", name), checked_name("version", version)


def file_names(proposal: Proposal, *, on_top: bool) -> tuple[str, ...]:
    """Return the names of the files of an environment, the easyconfig last."""
    stem = proposal.file_name[: -len(".eb")]
    # a lock with a name of its own is pylock.NAME.toml, where NAME has no dots (PEP 751)
    lock = f"pylock.{stem.replace('.', '_')}.toml"
    return (lock, proposal.file_name) if on_top else (lock, f"{stem}.def", proposal.file_name)


def make_environment(
    source: Source,
    base: NewImage,
    proposal: Proposal,
    site: Site,
    *,
    on_top: bool = False,
    say: Callable[[str], None],
) -> Environment:
    """Return an environment on a base image, as user software or in a new image; nothing is written.

    Raises:
        SifmodError: the packages can't be locked for the base.
        ImageError: the base has no Python.
        RuntimeMissingError: there is no container runtime.
    """
    python = proposal.python
    if python is None:
        raise ImageError(f"no Python was found in '{base.origin}' to install packages for: choose another base")
    if on_top and "venv" not in proposal.parameters:
        raise ImageError(f"the Python of '{base.origin}' can't make virtual environments: leave out --on-top")
    inside = Base(image=base.path.absolute(), runtime=find_runtime(site), python=python)
    say(f"resolving {source.origin} with the Python {python.prefix} of {base.origin}")
    facts, platform = inside.facts(), inside.platform()
    locked, requested = _locked(source, inside, facts, platform, on_top=on_top)
    names = file_names(proposal, on_top=on_top)
    made_from = basis(base)
    lock = (names[0], lock_text(locked, platform, base=made_from.identity))
    files = dict([lock])
    changes = _easyconfig(proposal, locked, facts, requested, source.origin, names[0])
    if on_top:
        options = source.requirements.options if source.requirements else ()
        changes.update(image_mode="central", pip_requirements=_requirements(locked, options))
        removed: tuple[str, ...] = ()
    else:
        files[names[1]] = python_definition(made_from, python.executable, locked, lock)
        changes.update(definition=names[1])
        removed = (*IMAGE_SOURCES, "checksums", "image_mode")
    kept = {name: value for name, value in proposal.parameters.items() if name not in removed}
    final = checked_proposal(replace(proposal, parameters={**kept, **changes}))
    what = "on top of" if on_top else "in an image made from"
    comment = f"Written by sifmod environment from {source.origin}: its packages {what} {base.origin}. Review it."
    files[names[-1]] = easyconfig_text(final.parameters, comments=[comment])
    return Environment(files=files, proposal=final)


def _locked(
    source: Source, base: Base, facts: PythonFacts, platform: Platform, *, on_top: bool
) -> tuple[tuple[Locked, ...], tuple[str, ...]]:
    """Return the packages of an environment, sorted, and the names of those that its file asks for."""
    if source.requirements:
        # pip may build in user software later, so its build tools are not held there
        constraints = facts.constraints if on_top else facts.all_constraints
        locked = base.resolve(source.requirements, facts, constraints=constraints)
        requested = source.requirements.names
    else:
        locked = without_held(read_lock(source.lock or Path(), platform), facts, source.origin)
        requested = tuple(one.name for one in locked)
    if not locked:
        raise SifmodError(f"the base has all packages of '{source.origin}': make a module of it with sifmod new IMAGE")
    return tuple(sorted(locked, key=lambda one: one.name)), tuple(requested)


def _easyconfig(
    proposal: Proposal, locked: Sequence[Locked], facts: PythonFacts, requested: Sequence[str], origin: str, lock: str
) -> dict[str, Any]:
    """Return the parameters that both kinds of environment have."""
    versions = {one.name: one.version for one in locked}
    held = held_packages(facts)
    asked = {name: versions.get(name) or held[name] for name in requested if name in versions or name in held}
    sentence = " ".join(str(proposal.parameters["description"]).split())
    text = f"{sentence} It has the packages of {without_templates(origin)}."
    return {
        "description": folded(text),
        "definition_files": [lock],
        "expected_packages": {**dict(proposal.parameters.get("expected_packages", {})), **asked},
    }


def _requirements(locked: Sequence[Locked], options: Sequence[str]) -> list[str]:
    """Return the lines for pip that only the locked wheels meet."""
    folders = dict.fromkeys(Path(one.path).parent.as_uri() for one in locked if one.path)
    found = [f"--find-links {folder}" for folder in folders]
    # pip sees the folders of wheels that are installed, and no others
    remote = [option for option in options if not option.startswith("--find-links file:")]
    lines = dict.fromkeys([*remote, *found, *(one.line for one in locked)])
    return [without_templates(line) for line in lines]


def python_definition(base: Basis, python: str, locked: Sequence[Locked], lock: tuple[str, str]) -> str:
    """Return the definition file of an image with the locked packages; `lock` is name and text of their file."""
    copied = {one.path: one.file_name for one in locked if one.path}
    trusted = certificates(os.environ) if len(copied) < len(locked) else None
    if trusted:
        copied[str(trusted)] = "certificates.pem"
    post = _POST.format(
        work=WORK,
        certificates=f" PIP_CERT={WORK}/certificates.pem" if trusted else "",
        python=shell(writable(python)),
        program=program("locked").strip(),
    )
    comment = f"the packages of {lock[0]} in the Python of {base.title}, whose own packages are kept."
    return definition_text(base, lock, post, comment=comment, copied=copied, copy="pylock.toml")
