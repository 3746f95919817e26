"""Which of the site's features apply on this node, and why others do not."""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from sifmod.container.bind import UNMATCHED, Bind, BindPattern
from sifmod.site.feature import Feature
from sifmod.site.settings import Site
from sifmod.text import pattern


@dataclass(frozen=True)
class FeatureState:
    """One feature on this node: why it does not apply, empty if it does; sources of bind paths that are missing."""

    feature: Feature
    why_not: str
    missing: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """Why it can't be used here; empty if it can."""
        return self.why_not or " and ".join(f"'{source}' does not exist" for source in self.missing)


def feature_states(site: Site) -> tuple[FeatureState, ...]:
    """Return the state of each feature of a site on this node."""
    return tuple(_state(feature) for feature in site.feature.values())


def _state(feature: Feature) -> FeatureState:
    why_not = ", ".join(_unmet(feature))
    missing = () if why_not else tuple(_source(bind) for bind in feature.binds if not bound(bind))
    return FeatureState(feature, why_not, missing)


def _unmet(feature: Feature) -> Iterator[str]:
    """Yield the conditions that this node does not meet."""
    if feature.vendor and not os.path.exists(feature.vendor.device):  # noqa: PTH110 - without an error where a folder above is not ours
        yield f"it has no '{feature.vendor.device}', the device of {feature.vendor.name}'s GPUs"
    known = host_names()
    if feature.hosts and not any(pattern.fits(name, host) for name in known for host in feature.hosts):
        yield f"its name is {' or '.join(known)}"
    partition = os.environ.get("SLURM_JOB_PARTITION", "")
    if feature.partitions and not any(pattern.fits(partition, one) for one in feature.partitions):
        yield f"the job's partition is {partition}" if partition else "it is not in a job of Slurm"
    if feature.exists and not os.path.exists(feature.exists):  # noqa: PTH110 - likewise
        yield f"it has no '{feature.exists}'"


def host_names() -> tuple[str, ...]:
    """Return the names of this node: its own, in full and short, and Slurm's for it."""
    own = os.uname().nodename
    return tuple(dict.fromkeys(filter(None, (own, own.partition(".")[0], os.environ.get("SLURMD_NODENAME", "")))))


def bound(bind: Union[Bind, BindPattern]) -> Mapping[str, str]:
    """Return the destination of each path of this node that a bind path is for; empty if there is none."""
    if isinstance(bind, Bind):
        return {bind.source: bind.destination} if os.path.exists(bind.source) else {}  # noqa: PTH110 - likewise
    bound = {}
    for path in sorted(glob.glob(bind.pattern)):  # noqa: PTH207 - text
        if os.path.exists(path) and not re.search(UNMATCHED, path):  # noqa: PTH110 - likewise
            bound[path] = f"{bind.folder}{posixpath.basename(path)}" if bind.folder else path
    return bound


def _source(bind: Union[Bind, BindPattern]) -> str:
    return bind.pattern if isinstance(bind, BindPattern) else bind.source
