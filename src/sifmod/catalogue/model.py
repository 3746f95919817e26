"""A catalogue: the containers of a centre, with what users look for and what they copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

# Raised for an incompatible change of the JSON only; a new key doesn't need it.
FORMAT = 2
# How the JSON begins, whatever is in it.
BEGIN = '{\n "$schema": "catalogue.schema.json",'
INSTALLED, OFFERED = "installed", "offered"


@dataclass(frozen=True)
class Package:
    """A Python package of a container."""

    name: str
    version: str


@dataclass(frozen=True)
class KnownProblem:
    """A known problem of a container, as a finding of doctor tells it."""

    severity: str  # `note`, `warning` or `problem`
    topic: str  # which advisory it is
    what: str
    why: str = ""  # where it is described, and what it depends on
    remedy: str = ""


@dataclass(frozen=True)
class Fit:
    """Whether a container fits the GPUs of a partition."""

    partition: str
    fits: str  # `yes`, `no`, or `unknown`
    why: str = ""  # what does not fit, or is not known


@dataclass(frozen=True)
class Image:
    """The image of a container."""

    file: str  # its file name
    size: int = 0  # its size in bytes; 0 if it is not known
    sha256: str = ""  # its SHA-256, in hexadecimal; empty if it is not known
    digest: str = ""  # its digest in the registry, as `sha256:...`; empty if it has none
    origin: str = ""  # where it is from: URI, definition file or path; empty if that is not known


@dataclass(frozen=True)
class Entry:
    """A module that is installed, or that an easyconfig offers. Text is empty if it is not known."""

    module: str  # name of the module, as for `module load`
    name: str  # name of the software
    version: str  # its full version
    state: str  # `installed` or `offered`
    image: Image
    easyconfig: str = ""  # file name of the easyconfig
    description: str = ""  # what the software is, on one line
    homepage: str = ""  # its address, with http or https
    module_class: str = ""  # module class, such as `ai`
    gpu: str = ""  # vendor of the GPUs that it is for; empty for none
    # partitions whose GPUs the site describes; empty for a container without GPUs, and while its image is not there
    partitions: tuple[Fit, ...] = ()
    mpi: str = ""  # whose MPI programs use: `host` or `image`
    python_version: str = ""  # `major.minor` of its Python; empty if the module offers none
    has_python: bool = False  # whether the module offers a Python
    features: tuple[str, ...] = ()  # the site's features in use
    commands: tuple[str, ...] = ()  # host commands that run a program of the container
    # Python packages that were recorded at the install, and those of user software, sorted by name
    packages: tuple[Package, ...] = ()
    advisories: tuple[KnownProblem, ...] = ()
    load: str = ""  # the line that loads the module
    run: str = ""  # the line that runs something in a step of Slurm
    job: str = ""  # a job script
    guide: str = ""  # the centre's instructions for users, in Markdown
    page: str = ""


@dataclass(frozen=True)
class Catalogue:
    """The modules of a centre."""

    time: str  # when it was made, in UTC, as in `2026-01-31T08:00:00Z`
    site: str  # name of the site
    modules: tuple[Entry, ...]  # sorted by name, the newest version first
    # versions of which easyconfigs are kept in an archive, the newest first, by name of the software
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
