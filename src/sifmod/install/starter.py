"""What runs commands in the image while it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sifmod.errors import RuntimeMissingError
from sifmod.host.command import first_on_path
from sifmod.host.enroot import Enroot
from sifmod.host.runtime import ContainerRuntime, find_runtime
from sifmod.resources import data_path
from sifmod.site.settings import Site


def _enroot(path: Path) -> ContainerRuntime:
    script = data_path("wrappers") / "runscripts" / "with-environment"
    return Enroot(path, script.read_text(encoding="utf-8"))


# By the key of their row. A runtime that is not here runs modules, and installs none.
_STARTERS: Mapping[str, Callable[[Path], ContainerRuntime]] = {"enroot": _enroot}


def find_install_runtime(site: Site) -> ContainerRuntime:
    """Return the site's container runtime for SIFs, or where there is none, another one that the site has.

    Raises:
        RuntimeMissingError: there is no runtime; the message names the commands that were tried.
    """
    try:
        return find_runtime(site)
    except RuntimeMissingError:
        for runtime in site.squashfs_runtimes:
            path = first_on_path(runtime.commands)
            if path and runtime.key in _STARTERS:
                return _STARTERS[runtime.key](path)
        raise
