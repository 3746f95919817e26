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
_IMAGE_S = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"


@dataclass(frozen=True)
class RenderedBind:
    """One bind path of a feature.

    Attributes:
        source: path on the host, or a pattern.
        argument: the bind path for the runtime; empty for a pattern.
        folder: directory of the container for the matches of a pattern, with a slash at its end; empty for their own.
        options: options of the runtime for these.
        missing: message for a node that lacks it; empty if it is optional.
    """

    source: str
    argument: str
    folder: str = ""
    options: str = ""
    missing: str = ""


@dataclass(frozen=True)
class RenderedFeature:
    """One feature.

    Attributes:
        name: its name.
        device: device file of the GPUs that it needs; empty if it needs none.
        hosts: patterns of host names.
        exists: file that it needs; empty if it needs none.
        binds: its bind paths.
        plain: variables of the shell.
        twins: variables of the runtime, without the prefix `SINGULARITY` or `APPTAINER`.
        library_path: directories of the container.
    """

    name: str
    device: str
    hosts: tuple[str, ...]
    exists: str
    binds: tuple[RenderedBind, ...]
    plain: Variables
    twins: Variables
    library_path: str


@dataclass(frozen=True)
class Refusal:
    """Features that can't be used if all of them apply on a node.

    Attributes:
        features: their names.
        message: why, and what to do.
    """

    features: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class Features:
    """The features of a site, for one module.

    Attributes:
        all: the features, in the site's order.
        chosen: names of those in use, unless the user changes that.
        refusals: what a module is not loaded with, and a command not run with.
        plain: the variables of the shell that they change, each with its value without features; None if it has none.
        twins: the same for variables of the runtime.
        library_tail: what follows their directories in the library path.
        record: the variable with what the module has chosen.
    """

    all: tuple[RenderedFeature, ...]
    chosen: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    plain: Variables
    twins: Variables
    library_tail: str
    record: str

    def __bool__(self) -> bool:
        return bool(self.all)


def rendered_features(
    site: Site,
    *,
    plain: Mapping[str, str],
    injected: Mapping[str, str],
    changes: Sequence[str] = (),
    overridden: Collection[str] = (),
    env_name: str,
    misfits: Mapping[str, str],
    switched_on: Collection[str] = (),
) -> Features:
    """Return the features of a site, for one module.

    Args:
        site: the settings of the cluster.
        plain: variables of the shell that the module sets besides.
        injected: variables that only the container gets.
        changes: `features` of the easyconfig.
        overridden: variables for which the easyconfig has the last word.
        env_name: the module's name in variables.
        misfits: features that programs of the image can't use, each with the reason.
        switched_on: variables of the runtime, without prefix, that the module sets anyway.

    Raises:
        ParameterError: the site lacks one, or two of them conflict on every node.
    """
    found = tuple(_rendered(feature, overridden, switched_on) for feature in site.feature.values())
    names = {name: plain.get(name) for feature in found for name in feature.plain}
    twins = {name: injected.get(name.partition("ENV_")[2]) for feature in found for name in feature.twins}
    own_path = injected.get(LIBRARY_PATH)
    if any(feature.library_path for feature in found):
        twins[f"ENV_{LIBRARY_PATH}"] = own_path
    return Features(
        all=found,
        chosen=tuple(feature.name for feature in site.features_of(changes)),
        refusals=(
            *(_conflict(first.name, second.name) for first, second in conflicts(site.feature.values())),
            *(_misfit(name, reason) for name, reason in misfits.items() if name in site.feature),
        ),
        plain=MappingProxyType(dict(sorted(names.items()))),
        twins=MappingProxyType(dict(sorted(twins.items()))),
        library_tail=f":{own_path}" if own_path else _IMAGE_S,
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
    return RenderedFeature(
        name=feature.name,
        device=feature.vendor.device if feature.vendor else "",
        hosts=feature.hosts,
        exists=feature.exists,
        binds=(
            *(_bind(bind, _needs(feature, bind)) for bind in feature.binds),
            *(_bind(bind) for bind in feature.optional_binds),
        ),
        plain={name: value for name, value in feature.env.items() if name not in overridden},
        twins={**injected, **options},
        library_path=":".join(feature.library_path),
    )


def _bind(bind: Union[Bind, BindPattern], missing: str = "") -> RenderedBind:
    if isinstance(bind, BindPattern):
        return RenderedBind(bind.pattern, "", bind.folder, bind.options, missing)
    return RenderedBind(bind.source, bind.argument, missing=missing)


def _needs(feature: Feature, bind: Union[Bind, BindPattern]) -> str:
    source = bind.pattern if isinstance(bind, BindPattern) else bind.source
    return (
        f"the feature '{feature.name}' needs '{source}', which this node does not have: use another node, or do "
        f"without the feature with SIFMOD_FEATURES=-{feature.name}"
    )
