"""An easyconfig for a module on top of another module: its image and its settings, and user software of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from sifmod.easyconfig.proposal import NO_HOMEPAGE, Proposal, checked_name

# What the base's easyconfig says about its image holds for the new module too.
_ABOUT = ("homepage", "moduleclass")


def propose_on(
    base: str, kept: Mapping[str, Any], *, name: str, version: str, first: Optional[tuple[str, str, str]] = None
) -> Proposal:
    """Return a proposal for the easyconfig of a module that builds on another one, by its module or its path.

    `kept` are the parameters of the base's easyconfig, empty if it can't be read; `first` is name, version and suffix
    of it, for `eb --robot` to install first, or None if it is somebody else's.

    Raises:
        ParameterError: the name or the version can't be part of a path.
    """
    about = {key: kept[key] for key in _ABOUT if isinstance(kept.get(key), str) and "%" not in kept[key]}
    parameters = {
        "easyblock": "ContainerImage",
        "name": checked_name("name", name),
        "version": checked_name("version", version),
        "homepage": NO_HOMEPAGE,
        "description": f"Packages on top of {base.replace('%', '%%')}.",
        "builds_on": base.replace("%", "%%"),
        **({"builddependencies": [first]} if first else {}),
        "moduleclass": "devel",
        **about,
    }
    return Proposal(parameters, ())
