"""The versions of what this host has for containers: its runtime, and the tools that sifmod runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sifmod.host.command import ask
from sifmod.host.runtime import release_here
from sifmod.site.settings import Site

# Each with the option for which it prints its version.
_TOOLS = MappingProxyType({"mksquashfs": "-version", "squashfuse": "--help"})


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class HostVersions:
    """What this host has. What is missing, or tells no version, is left out.

    Attributes:
        runtimes: version of the container runtime, by its name, such as `apptainer` or `singularity-ce`.
        tools: version of each tool, by its name.
    """

    runtimes: Mapping[str, str] = field(default_factory=_nothing)
    tools: Mapping[str, str] = field(default_factory=_nothing)


def host_versions(site: Site) -> HostVersions:
    """Return the versions of this host, by running each of its commands once."""
    runtime = release_here(site)
    tools = {
        tool: found for tool, found in ((tool, _version(tool, option)) for tool, option in _TOOLS.items()) if found
    }
    return HostVersions({runtime.name: runtime.number} if runtime.name else {}, tools)


def _version(tool: str, option: str) -> str:
    path = shutil.which(tool)
    said = ask([path, option])[1] if path else ""
    found = re.search(rf"\b{tool}(?:_ll)? (?:version )?(\d+(?:\.\d+)+)", said)
    return found[1] if found else ""
