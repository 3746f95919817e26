"""The versions of what this host has for containers: its runtime, and the tools that sifmod runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sifmod.host.command import ask
from sifmod.host.runtime import Release

# Each with the option for which it prints its version.
_TOOLS = MappingProxyType({"mksquashfs": "-version", "squashfuse": "--help"})


@dataclass(frozen=True)
class HostVersions:
    """The versions of the container runtime, by its name, and of tools; what tells no version is left out."""

    runtimes: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)


def host_versions(release: Release, tools: Iterable[str] = tuple(_TOOLS)) -> HostVersions:
    """Return the versions of this host, by running each of the tools once, of those that sifmod knows how to ask."""
    asked = {tool: _version(tool, _TOOLS[tool]) for tool in tools if tool in _TOOLS}
    return HostVersions(
        {release.name: release.number} if release.name else {},
        {tool: version for tool, version in asked.items() if version},
    )


def _version(tool: str, option: str) -> str:
    path = shutil.which(tool)
    said = ask([path, option])[1] if path else ""
    match = re.search(rf"\b{tool}(?:_ll)? (?:version )?(\d+(?:\.\d+)+)", said)
    return match[1] if match else ""
