"""A catalogue: the containers of a centre, with what users look for and what they copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Optional

# Raised for an incompatible change of the JSON only; a new key doesn't need it.
FORMAT = 1
# How the JSON begins, whatever is in it.
BEGIN = '{\n "$schema": "catalogue.schema.json",'
INSTALLED, OFFERED = "installed", "offered"


@dataclass(frozen=True)
class Package:
    """A Python package of a container."""

    name: str
    version: str


@dataclass(frozen=True)
class NewVersion:
    """A package that has another version than in the container before."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Changes:
    """How the packages differ from those of the version before.

    Attributes:
        since: module of the version before.
        added: packages that came.
        removed: packages that went.
        changed: packages that have another version.
    """

    since: str
    added: tuple[Package, ...]
    removed: tuple[Package, ...]
    changed: tuple[NewVersion, ...]


@dataclass(frozen=True)
class KnownProblem:
    """A known problem of a container, as a finding of doctor tells it.

    Attributes:
        severity: `note`, `warning` or `problem`.
        topic: which advisory it is.
        what: what goes wrong.
        why: where it is described, and what it depends on.
        remedy: what to do.
    """

    severity: str
    topic: str
    what: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Image:
    """The image of a container.

    Attributes:
        file: its file name.
        size: its size in bytes; 0 if it is not known.
        sha256: its SHA-256, in hexadecimal; empty if it is not known.
        digest: its digest in the registry, as `sha256:...`; empty if it has none.
        origin: where it is from: URI, definition file or path; empty if that is not known.
    """

    file: str
    size: int = 0
    sha256: str = ""
    digest: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Entry:
    """A module that is installed, or that an easyconfig offers. Text is empty if it is not known.

    Attributes:
        module: name of the module, as for `module load`.
        name: name of the software.
        version: its full version.
        state: `installed` or `offered`.
        easyconfig: file name of the easyconfig.
        description: what the software is, on one line.
        homepage: its address, with http or https.
        module_class: module class, such as `ai`.
        gpu: vendor of the GPUs that it is for; empty for none.
        mpi: whose MPI programs use: `host` or `image`.
        python_version: `major.minor` of its Python; empty if the module offers none.
        has_python: whether the module offers a Python.
        image: its image.
        features: the site's features in use.
        commands: host commands that run a program of the container.
        packages: Python packages that were recorded at the install, and those of user software, sorted by name.
        advisories: known problems.
        load: the line that loads the module.
        run: the line that runs something in a step of Slurm.
        job: a job script.
        guide: the centre's instructions for users, in Markdown.
        changes: how the packages differ from those of the version before; None if there is none to compare with.
        page: path of its page.
    """

    module: str
    name: str
    version: str
    state: str
    image: Image
    easyconfig: str = ""
    description: str = ""
    homepage: str = ""
    module_class: str = ""
    gpu: str = ""
    mpi: str = ""
    python_version: str = ""
    has_python: bool = False
    features: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()
    advisories: tuple[KnownProblem, ...] = ()
    load: str = ""
    run: str = ""
    job: str = ""
    guide: str = ""
    changes: Optional[Changes] = None
    page: str = ""


@dataclass(frozen=True)
class Catalogue:
    """The modules of a centre.

    Attributes:
        time: when it was made, in UTC, as in `2026-01-31T08:00:00Z`.
        site: name of the site.
        modules: sorted by name, the newest version first.
        archived: versions of which easyconfigs are kept in an archive, the newest first, by name of the software.
    """

    time: str
    site: str
    modules: tuple[Entry, ...]
    archived: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def data(self) -> dict[str, Any]:
        """The catalogue as `catalogue.json` has it."""
        modules = [asdict(entry) for entry in self.modules]
        archived = {name: list(versions) for name, versions in self.archived.items()}
        return {"format": FORMAT, "time": self.time, "site": self.site, "modules": modules, "archived": archived}

    @property
    def text(self) -> str:
        """The catalogue as JSON."""
        return json.dumps({"$schema": "catalogue.schema.json", **self.data}, indent=1) + "\n"
