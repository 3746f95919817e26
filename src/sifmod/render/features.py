"""What modules and scripts need to know about the features of a site; they decide on the node which of them apply."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Optional, Union

from sifmod.container.bind import Bind, BindPattern
from sifmod.site.feature import LIBRARY_PATH, Feature, conflicts
from sifmod.site.settings import Site

# The variables with the features that the loaded module has chosen, and those of them that applied there: `a,b:a`. The
# first is of the module that was loaded last, the other, with the module's name after it, is of each module.
RECORD = "__SIFMOD_FEATURES"

Variables = Mapping[str, Optional[str]]

# Evaluated in the container. Without a value nothing may follow: an empty directory would be the current one.
_LIBRARY_PATH_OF_IMAGE = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"


@dataclass(frozen=True)
class RenderedFeature:
    """One feature for one module: without what the easyconfig has a say in."""

    feature: Feature
    exported: Variables  # variables of the shell
    runtime_variables: Variables  # variables of the runtime, without the prefix `SINGULARITY` or `APPTAINER`

    @property
    def name(self) -> str:
        """Its name."""
        return self.feature.name

    @property
    def needs(self) -> list[str]:
        """The files that a node where it applies has: the device of its GPUs, and what `exists` names."""
        device = self.feature.vendor.device if self.feature.vendor else ""
        return [path for path in (device, self.feature.exists) if path]

    @property
    def library_path(self) -> str:
        """Directories of the container."""
        return ":".join(self.feature.library_path)

    @property
    def binds(self) -> list[tuple[Union[Bind, BindPattern], str]]:
        """Its bind paths, each with the message for a node that lacks it; empty if it is optional."""
        needed = [(bind, self._missing(bind)) for bind in self.feature.binds]
        return [*needed, *((bind, "") for bind in self.feature.optional_binds)]

    def _missing(self, bind: Union[Bind, BindPattern]) -> str:
        source = bind.pattern if isinstance(bind, BindPattern) else bind.source
        return (
            f"the feature '{self.name}' needs '{source}', which this node does not have: use another node, or do "
            f"without the feature with SIFMOD_FEATURES=-{self.name}"
        )


@dataclass(frozen=True)
class Refusal:
    """Features that can't be used if all of them apply on a node; the message says why, and what to do."""

    features: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class Features:
    """The features of a site, for one module."""

    all: tuple[RenderedFeature, ...]  # the features, in the site's order
    chosen: tuple[str, ...]  # names of those in use, unless the user changes that
    refusals: tuple[Refusal, ...]  # what a module is not loaded with, and a command not run with
    # the variables of the shell that they change, each with its value without features; None if unset
    exported: Variables
    runtime_variables: Variables  # the same for variables of the runtime
    library_tail: str  # what follows their directories in the library path
    record: str  # the variable with what the module has chosen

    def __bool__(self) -> bool:
        return bool(self.all)


def rendered_features(
    site: Site,
    *,
    exported: Mapping[str, str],
    injected: Mapping[str, str],
    changes: Sequence[str] = (),
    overridden: Collection[str] = (),
    env_name: str,
    unusable: Mapping[str, str],
    switched_on: Collection[str] = (),
) -> Features:
    """Return the features of a site, for one module."""
    found = tuple(_rendered(feature, overridden, switched_on) for feature in site.feature.values())
    names = {name: exported.get(name) for feature in found for name in feature.exported}
    runtime_variables = {
        name: injected.get(name.partition("ENV_")[2]) for feature in found for name in feature.runtime_variables
    }
    own_path = injected.get(LIBRARY_PATH)
    if any(feature.library_path for feature in found):
        runtime_variables[f"ENV_{LIBRARY_PATH}"] = own_path
    return Features(
        all=found,
        chosen=tuple(feature.name for feature in site.features_of(changes)),
        refusals=(
            *(_conflict(first.name, second.name) for first, second in conflicts(site.feature.values())),
            *(_misfit(name, reason) for name, reason in unusable.items() if name in site.feature),
        ),
        exported=MappingProxyType(dict(sorted(names.items()))),
        runtime_variables=MappingProxyType(dict(sorted(runtime_variables.items()))),
        library_tail=f":{own_path}" if own_path else _LIBRARY_PATH_OF_IMAGE,
        record=f"{RECORD}_{env_name}",
    )


def _conflict(first: str, second: str) -> Refusal:
    return Refusal(
        (first, second),
        f"the features '{first}' and '{second}' conflict: choose one with SIFMOD_FEATURES=-{first} "
        f"or SIFMOD_FEATURES=-{second}",
    )


def _misfit(name: str, reason: str) -> Refusal:
    sentence = f"the feature '{name}' does not work with this image: {reason}"
    return Refusal((name,), f"{sentence}. Do without it: SIFMOD_FEATURES=-{name}")


def _rendered(feature: Feature, overridden: Collection[str], switched_on: Collection[str]) -> RenderedFeature:
    injected = {f"ENV_{name}": value for name, value in feature.container_env.items() if name not in overridden}
    options = {name: value for name, value in feature.options.items() if name not in switched_on}
    exported = {name: value for name, value in feature.env.items() if name not in overridden}
    return RenderedFeature(feature, exported, {**injected, **options})
