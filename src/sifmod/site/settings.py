"""A site: the settings of one cluster, read from TOML files and SIFMOD_* variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Optional, Union

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.gpu import COMPATS, LIBRARIES, SETUPS, VENDORS
from sifmod.container.parameters import IMAGE_MODES
from sifmod.container.runtime import APPTAINER, Runtime, squashfs_runtimes
from sifmod.container.runtime import RUNTIMES as RUNTIME_ROWS
from sifmod.container.variables import TASK_GPUS
from sifmod.errors import ParameterError, SiteError
from sifmod.resources import data_path
from sifmod.site.feature import (
    FEATURE_KEYS,
    FEATURE_NAMES,
    FEATURES,
    Feature,
    certain_conflicts,
    check_name,
    chosen,
    unbound,
)
from sifmod.site.file import SiteFile, place
from sifmod.site.keys import (
    BINDS,
    BLOCK_SIZE,
    CACHE,
    COMPRESSORS,
    FAMILY,
    FLAG,
    HOSTS,
    LEVELS,
    MASKS,
    NODE_PATH,
    PARTITION,
    PARTITION_GPUS,
    PATH,
    PATHS,
    PROXY_TABLE,
    RUNTIMES,
    TEXT,
    VARIABLES,
    Key,
    choice,
    described,
    keys_of,
    number,
)
from sifmod.site.reading import read_table, read_value
from sifmod.text.suggest import perhaps

# Whom messages tell to ask about somebody else's installation.
ASK_OWNER = "ask its owner"

# Variables of sifmod that are not settings of a site.
_OTHER_VARIABLES = (
    "SIFMOD_FEATURES",
    "SIFMOD_PYTHONPATH",
    "SIFMOD_RELOADS",
    "SIFMOD_RUNTIME_OPTIONS",
    "SIFMOD_SITE",
    TASK_GPUS,
    "SIFMOD_USER_BINDPATH",
    "SIFMOD_VERBOSE",
)


# Keys that earlier releases had: the release that removed each, and what to do.
_REMOVED = {
    "node_local_dir": ("0.4.0", "copy images with sbcast: see 'sifmod help broadcast-an-image'"),
    "stripe": ("0.4.0", "set the layout of folders with lfs setstripe: see 'sifmod help add-a-site'"),
}


@dataclass(frozen=True)
class Site:
    """The settings of one cluster, merged from all origins.

    The keys of a site file are the fields after `name`.
    """

    name: str  # name or path of the site file
    runtime: str = described(
        TEXT, "", "Command of the container runtime. If empty, `singularity` is tried first, then `apptainer`."
    )
    runtimes: tuple[str, ...] = described(
        RUNTIMES,
        (),
        "What runs containers on the cluster: job scripts of `sifmod sbatch` use the first one, wrappers the first one "
        f"that is on the node. {' '.join(one.about for one in RUNTIME_ROWS.values())} If empty, "
        f"`{APPTAINER.key}` alone.",
    )
    binds: tuple[Bind, ...] = described(BINDS, (), "Bind paths for every container. They must exist on every node.")
    optional_binds: tuple[Bind, ...] = described(BINDS, (), "Bind paths used on the nodes where their source exists.")
    image_repositories: tuple[str, ...] = described(
        PATHS, (), "Directories with the site's central images, searched in this order."
    )
    insecure_registries: tuple[str, ...] = described(
        HOSTS,
        (),
        "Registries accessed over plain HTTP. If there is one, definition files are built with `--no-https`; "
        "Dockerfiles, if all of their registries are named.",
    )
    credential_registries: tuple[str, ...] = described(
        HOSTS,
        (),
        "Registries that SINGULARITY_DOCKER_USERNAME and _PASSWORD are for. If empty, the registry of `image_uri`, but "
        "none that a Dockerfile or a definition names.",
    )
    token_services: tuple[str, ...] = described(
        HOSTS, (), "Token services that may get passwords, in addition to those on the registry's own domain."
    )
    runtime_tmpdir: str = described(PATH, "", "Temporary folder for pulls and builds. It must exist.")
    runtime_cachedir: str = described(PATH, "", "Cache folder of the runtime. The runtime creates it.")
    image_builder: str = described(
        choice(*names.IMAGE_BUILDERS),
        "",
        "Command that builds Dockerfiles. If empty, the first of these that is there.",
    )
    replaced_image: str = described(
        choice("keep", "remove", empty="keep"),
        "keep",
        "keep: [the image that a rebuild replaces](install-tree.md#a-reinstall) stays until the next rebuild. remove: "
        "it goes when the new module is in place.",
    )
    signatures: str = described(
        choice("none", "required", empty="none"),
        "none",
        "With `required`, images without a valid signature (`singularity verify`) are refused before the install.",
    )
    signature_key: str = described(
        PATH, "", "PEM file of the public key to check signatures with. If empty, the runtime's local keyring is used."
    )
    gpu: str = described(
        choice(*VENDORS),
        "",
        "Vendor of the cluster's GPUs.",
    )
    gpu_libraries: str = described(
        choice(*LIBRARIES),
        "",
        "Whose libraries programs use on GPUs; by default `host` with NVIDIA and `image` with AMD.",
    )
    cuda_compat: str = described(
        choice(*COMPATS),
        "",
        "Whether CUDA's [compat libraries](../howto/use-old-gpus.md) in an image are used: `auto`, the default, on "
        "nodes whose driver and cards allow it.",
    )
    gpu_setup: str = described(
        choice(*SETUPS),
        "",
        "How Apptainer gives containers GPUs with the host's libraries: see [GPUs](../howto/add-a-site.md#gpus). If "
        "empty, or if it is for GPUs of another vendor, by "
        f"{' or '.join(f'`--{vendor.option}`' for vendor in VENDORS.values())}.",
    )
    partition_gpus: Mapping[str, str] = described(
        PARTITION_GPUS,
        {},
        'Driver and model of the GPUs of partitions, such as `"535.104.05 A100-SXM4-40GB"`: the catalogue says '
        "which of them a container fits.",
    )
    image_mode: str = described(
        choice(*IMAGE_MODES, empty="copy"),
        "copy",
        "[How images get into installations](parameters.md#where-the-image-comes-from).",
    )
    module_family: str = described(FAMILY, "container", "Lmod family of modules.")
    user_commands: bool = described(
        FLAG,
        True,
        "Whether commands that users install are [commands on the host](commands.md#commands-of-user-software) too.",
    )
    share_container: bool = described(
        FLAG,
        False,
        "Whether the tasks of a Slurm step on a node share [one container](../howto/share-a-container.md). In a job, "
        "the variable decides for this job.",
    )
    cpu_bind_masks: tuple[str, ...] = described(
        MASKS, (), "CPU masks for the tasks of a GPU node, in the order of their GPUs (`srun --cpu-bind=mask_cpu:`)."
    )
    slurm_partition: Union[str, Mapping[str, str]] = described(
        PARTITION,
        "",
        "Slurm partition for jobs with GPUs (`sifmod sbatch`), unless the user names another. With GPUs of several "
        f"vendors, a table: `{{ {', '.join(f'{vendor} = ...' for vendor in VENDORS)} }}`.",
    )
    slurm_account: str = described(TEXT, "", "Slurm account for jobs (`sifmod sbatch`), unless the user names another.")
    servers: tuple[str, ...] = described(
        PATHS,
        (),
        "Files with the site's own [servers of models](commands.md#servers-of-models), in addition to those that are "
        "shipped. A later row of a name replaces an earlier one.",
    )
    serve_timeout: int = described(
        number(1, 86400), 1800, "Seconds that a server of `sifmod sbatch --serve` has until it answers."
    )
    serve_any_address: bool = described(
        FLAG, False, "Whether such a server may listen on all addresses of its node. Else the job ends if it does."
    )
    offline_nodes: bool = described(
        FLAG,
        False,
        "Whether compute nodes have no way to the internet: then `sifmod sbatch --serve` sets `HF_HUB_OFFLINE`, and "
        "tells how to fetch the model on a login node.",
    )
    installer: str = described(
        choice("pip", "uv", empty="pip"),
        "pip",
        "What installs `pip_requirements`, and packages in `carry-over`. uv is the image's, else the host's; if "
        "neither has one, pip is used.",
    )
    pack_compressor: str = described(choice(*COMPRESSORS, empty="zstd"), "zstd", "Compressor of `make-squashfs`.")
    pack_level: int = described(
        number(1, 22),
        5,
        "Compression level of `make-squashfs`: up to 22 for zstd, 9 for gzip and lzo. The others have no levels.",
    )
    pack_block_size: str = described(BLOCK_SIZE, "256K", "Block size of `make-squashfs`.")
    pack_processors: int = described(
        number(0, 9999), 0, "Most processors that `make-squashfs` uses; 0 for all that the process may use."
    )
    advisories: tuple[str, ...] = described(
        PATHS,
        (),
        "Files with the site's own [advisories](advisories.md), which replace or withdraw those that are shipped and "
        "of earlier files.",
    )
    apply_advisories: bool = described(
        FLAG,
        False,
        "Whether `eb` sets variables as the advisories for a container say; `container_env` of the easyconfig comes "
        "first.",
    )
    container_env: Mapping[str, Optional[str]] = described(
        VARIABLES, {}, "Variables for every container; `NAME = false` removes what an earlier origin sets."
    )
    proxies: Mapping[str, Optional[str]] = described(
        PROXY_TABLE,
        {},
        "Proxies for containers, in both spellings, unless the user has one of that kind when the module is loaded. "
        "The user's shell is left alone.",
    )
    cache: Mapping[str, str] = described(
        CACHE,
        {},
        "Each user's folder for caches, and the variables that point below it: see [caches](#caches).",
    )
    dependents_dir: str = described(
        NODE_PATH,
        "",
        "Folder for links of [modules that build on others](../operate.md#who-builds-on-a-module). All users write to "
        "it: `chmod 1777`.",
    )
    support: str = described(
        TEXT,
        "",
        "Whom users ask, such as a mail address: messages name it beside the owner of an installation.",
    )
    master_suffix: str = described(TEXT, "", "Suffix of host names in the fast network, which `get-master` appends.")
    default_features: tuple[str, ...] = described(
        FEATURE_NAMES, (), "Features of every container, unless the easyconfig or the user takes one away."
    )
    feature: Mapping[str, Feature] = described(
        FEATURES, {}, "What the cluster offers to containers on some or all nodes: see [features](#features)."
    )

    @property
    def runtime_commands(self) -> tuple[str, ...]:
        """Commands that start SIFs to try, in this order."""
        return (self.runtime,) if self.runtime else APPTAINER.commands

    @property
    def runtime_is_missing(self) -> str:
        """The message for a node that has none of them."""
        return (
            f"no container runtime on this node: looked for {' and '.join(self.runtime_commands)} on PATH. Load its "
            "module, use a node that has one, or set 'runtime' in the site file"
        )

    @property
    def squashfs_runtimes(self) -> tuple[Runtime, ...]:
        """Those of its runtimes that start no SIFs: for these, installations also hold the image's SquashFS."""
        return tuple(one for one in self._runtime_rows if not one.starts_sifs)

    @property
    def ask_owner(self) -> str:
        """Whom a message tells to ask about somebody else's installation."""
        return ASK_OWNER + (f", or {self.support}" if self.support else "")

    @property
    def prefers_plugin(self) -> bool:
        """Whether job scripts use the plugin of Slurm for its first runtime, unless the user chooses otherwise."""
        return any(one.plugin for one in self._runtime_rows[:1])

    @property
    def _runtime_rows(self) -> tuple[Runtime, ...]:
        return tuple(RUNTIME_ROWS[key] for key in self.runtimes)

    @property
    def image_builders(self) -> tuple[str, ...]:
        """Commands that build Dockerfiles to try, in this order."""
        return (self.image_builder,) if self.image_builder else names.IMAGE_BUILDERS

    def features_of(self, changes: Sequence[str]) -> tuple[Feature, ...]:
        """Return the features of a container whose easyconfig makes these changes, unless its user changes them.

        Raises:
            ParameterError: the site lacks one, or two of them conflict on every node where one applies.
        """
        names_of, unknown = chosen((*self.default_features, *changes), self.feature)
        if unknown:
            known = f"one of {', '.join(self.feature)}" if self.feature else "none: it has no features"
            raise ParameterError(
                "features",
                list(changes),
                f"the site {self.name} has no feature '{unknown[0]}'{perhaps(unknown[0], self.feature)}: use {known}",
            )
        found = tuple(self.feature[name] for name in names_of)
        for first, second in certain_conflicts(found):
            raise ParameterError(
                "features",
                list(changes),
                f"the features '{first}' and '{second}' conflict: take one away, with '-{first}' or '-{second}'",
            )
        return found

    def partition(self, gpu: str) -> str:
        """Return Slurm's partition with GPUs of a vendor, by default the site's; empty if the site names none."""
        if isinstance(self.slurm_partition, str):
            return self.slurm_partition
        return self.slurm_partition.get(gpu or self.gpu, "")

    @property
    def easyconfig_defaults(self) -> dict[str, Any]:
        """Defaults for parameters that an easyconfig does not set."""
        return {
            "gpu": self.gpu or None,  # "" in an easyconfig states that its container has none
            "gpu_libraries": self.gpu_libraries,
            "cuda_compat": self.cuda_compat,
            "image_mode": self.image_mode,
            "module_family": self.module_family,
            "user_commands": self.user_commands,
            "share_container": self.share_container,
        }


KEYS: Mapping[str, Key] = keys_of(Site)


@dataclass(frozen=True)
class Origin:
    """Where a setting comes from."""

    layer: str  # `default`, `site`, `user` or `environment`
    file: str = ""  # path of the file; empty for the other layers
    line: int = 0  # line in that file; 0 if it isn't known
    variable: str = ""  # name of the environment variable; empty for the other layers

    def __str__(self) -> str:
        if self.file:
            return f"{self.file}:{self.line}" if self.line else self.file
        return self.variable or self.layer


@dataclass(frozen=True)
class Entry:
    """One setting in force: a key, or one entry of a table such as `container_env` under its dotted name."""

    name: str  # the key, such as `runtime` or `container_env.OMP_NUM_THREADS`
    value: Any
    origin: Origin  # where it comes from


@dataclass(frozen=True)
class Settings:
    """A site with the origins of its settings."""

    site: Site  # the settings in force
    path: Path  # the site file
    # origin of each key that is not at its default, and of each entry of a table, such as `container_env.NAME`
    origins: Mapping[str, Origin]

    def entries(self) -> Iterator[Entry]:
        """Yield all settings in the order of the documentation, including those at their default."""
        for name in KEYS:
            value = getattr(self.site, name)
            if name == "feature" and value:
                yield from self._features()
            elif isinstance(value, Mapping) and value:
                for inner, content in value.items():
                    yield Entry(f"{name}.{inner}", content, self.origins[f"{name}.{inner}"])
            else:
                yield Entry(name, value, self.origins.get(name, Origin("default")))

    def _features(self) -> Iterator[Entry]:
        """Yield what is said about each feature."""
        for feature in self.site.feature.values():
            top = f"feature.{feature.name}"
            yield Entry(top, feature.help, self.origins.get(f"{top}.help", self.origins[top]))
            for key in FEATURE_KEYS:
                value = getattr(feature, key)
                if isinstance(value, Mapping):
                    for name, content in value.items():
                        yield Entry(f"{top}.{key}.{name}", content, self.origins[f"{top}.{key}.{name}"])
                elif f"{top}.{key}" in self.origins and key != "help":
                    yield Entry(f"{top}.{key}", value, self.origins[f"{top}.{key}"])


@dataclass(frozen=True)
class _Layer:
    """The settings of one layer by key, and the origin of each."""

    settings: Mapping[str, Any]
    origins: Mapping[str, Origin]


def shipped_sites() -> list[str]:
    """Return the names of the site files that come with the package, sorted."""
    return sorted(path.stem for path in data_path("sites").glob("*.toml"))


def site_title(name: str) -> str:
    """Return the first line of a shipped site file, which names the cluster."""
    text = (data_path("sites") / f"{name}.toml").read_text(encoding="utf-8")
    return text.partition("\n")[0].lstrip("# ")


def load_site(environ: Optional[Mapping[str, str]] = None) -> Site:
    """Return the settings in force; see `load_settings`."""
    return load_settings(environ).site


def load_settings(environ: Optional[Mapping[str, str]] = None, site: str = "") -> Settings:
    """Return the settings in force, with their origins: defaults < site file < user's file < SIFMOD_* variables.

    The site file is named by `site`, by `SIFMOD_SITE`, or by the key `site` of the user's file
    (`$XDG_CONFIG_HOME/sifmod/config.toml`), as a shipped name or a path; without any it is `generic`. An easyconfig
    overrides all of them.

    Raises:
        SiteError: a file is missing or can't be read, a key is unknown, or a value has a wrong type or meaning.
    """
    environ = os.environ if environ is None else environ
    user_path = _user_file(environ)
    user, users_site = _Layer({}, {}), ""
    if user_path and _is_present(user_path):
        user_file = SiteFile.read(user_path)
        if "site" in user_file.values:
            users_site = read_value(user_file, ("site",), TEXT, user_file.values.pop("site"))
        user = _from_file(user_file, "user")
    which = site or environ.get("SIFMOD_SITE") or users_site or "generic"
    path = _site_file(which)
    settings: Mapping[str, Any] = {}
    origins: dict[str, Origin] = {}
    for layer in (_from_file(SiteFile.read(path), "site"), user, _from_variables(environ)):
        settings = _merged(settings, layer.settings)
        origins.update(layer.origins)
    features = {name: Feature(name, **values) for name, values in settings.get("feature", {}).items()}
    merged = Site(name=which, **{**settings, "feature": MappingProxyType(features)})
    _check_runtime(merged, origins)
    _check_level(merged, origins)
    _check_features(merged, origins)
    return Settings(merged, path, MappingProxyType(origins))


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of two layers: the second's come first, and tables are merged."""
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        is_table = isinstance(value, Mapping)
        both[key] = _merged(before if isinstance(before, Mapping) else {}, value) if is_table else value
    return MappingProxyType(both)


def _check_features(site: Site, origins: Mapping[str, Origin]) -> None:
    """Check what features, and other settings, say about each other."""

    def refuse(name: str, problem: str) -> None:
        origin = origins[name]
        where = place(Path(origin.file), origin.line) if origin.file else f"the variable {origin.variable}"
        raise SiteError(f"{where} has {name}: {problem}")

    lists = {"default_features": site.default_features}
    lists.update({f"feature.{item.name}.conflicts": item.conflicts for item in site.feature.values()})
    for name, listed in lists.items():
        for item in listed:
            if item not in site.feature:
                known = f"write one of {', '.join(site.feature)}" if site.feature else "the site has no features"
                refuse(name, f"there is no feature '{item}'{perhaps(item, site.feature)}: {known}")
    for feature in site.feature.values():
        if feature.name in feature.conflicts:
            refuse(f"feature.{feature.name}.conflicts", "a feature can't conflict with itself: remove its name")
        for path in unbound(feature, (*site.binds, *site.optional_binds)):
            refuse(
                f"feature.{feature.name}.library_path",
                f"no bind path of the feature or the site contains '{path}', so it is not in the container: add one "
                "to binds of the feature, or correct the path",
            )
    for first, second in certain_conflicts(site.feature[name] for name in dict.fromkeys(site.default_features)):
        refuse("default_features", f"'{first}' and '{second}' conflict: remove one of them")


def _check_runtime(site: Site, origins: Mapping[str, Origin]) -> None:
    for one in squashfs_runtimes():
        if PurePosixPath(site.runtime).name in one.commands:
            raise SiteError(
                f"runtime is '{site.runtime}' ({origins['runtime']}), but this key names the command that starts SIFs, "
                f'which {one.name} does not: remove it, and write runtimes = ["{one.key}"]'
            )


def _check_level(site: Site, origins: Mapping[str, Origin]) -> None:
    highest = LEVELS.get(site.pack_compressor)
    if highest and site.pack_level > highest:
        said = " and ".join(f"{key} ({origins[key]})" for key in ("pack_compressor", "pack_level") if key in origins)
        raise SiteError(
            f"pack_level is {site.pack_level}, but {site.pack_compressor} only has levels from 1 to {highest}: correct "
            f"{said}"
        )


def _user_file(environ: Mapping[str, str]) -> Optional[Path]:
    base = environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):  # a relative one is not valid (XDG Base Directory Specification)
        base = environ["HOME"] + "/.config" if environ.get("HOME") else ""
    return Path(base) / "sifmod" / "config.toml" if base else None


def _site_file(chosen: str) -> Path:
    if "/" in chosen or chosen.endswith(".toml"):
        path = Path(os.path.expanduser(chosen))  # noqa: PTH111 - Path.expanduser fails for an unknown user
        if not _is_present(path):
            raise SiteError(
                f"the site file '{path}' does not exist: correct SIFMOD_SITE, --site or the key 'site' in the user's "
                "settings, whichever names it"
            )
        return path
    known = shipped_sites()
    if chosen not in known:
        raise SiteError(
            f"there is no site '{chosen}'{perhaps(chosen, known)}: SIFMOD_SITE takes the path of a site file "
            f"or one of {', '.join(known)}"
        )
    return data_path("sites") / f"{chosen}.toml"


def _is_present(path: Path) -> bool:
    """Whether there is anything, also what can't be read: only a file that is absent may be passed over."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        pass  # reading it fails with the reason
    return True


def _from_file(file: SiteFile, layer: str) -> _Layer:
    _check_places(file)
    origins: dict[str, Origin] = {}
    settings = read_table(file, file.values, KEYS, removed=_REMOVED)
    for key, value in file.values.items():
        if KEYS[key].kind is FEATURES:
            settings[key] = {name: _feature(file, name, table) for name, table in value.items()}
            for name in value:
                origins[f"{key}.{name}"] = Origin(layer, str(file.path), file.line(key, name))
        for path in _paths(key, settings[key]):
            origins[".".join(path)] = Origin(layer, str(file.path), file.line(*path))
    return _Layer(settings, origins)


def _check_places(file: SiteFile) -> None:
    """Refuse a key of the site below the head of a table of variables: TOML takes it for one of these."""
    for key, value in file.values.items():
        if key in KEYS and KEYS[key].kind not in (FEATURES, PARTITION_GPUS) and isinstance(value, Mapping):
            for name in value:
                if name in KEYS:
                    raise SiteError(
                        f"{file.place(key, name)} has {name} in the table {key}, which holds variables of the "
                        f"container: write the key {name} above the line [{key}]"
                    )


def _paths(key: str, value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the names that lead to each setting of a key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from ((key, *path) for path in _paths(name, inner))
    else:
        yield (key,)


def _feature(file: SiteFile, name: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what one file says about a feature."""
    top = ("feature", name)
    try:
        check_name(name)
    except ValueError as error:
        raise SiteError(f"{file.place(*top)} has [feature.{name}]: {error}") from error
    return read_table(file, table, FEATURE_KEYS, top=top, of=f"the feature {name}", outer=KEYS)


def _from_variables(environ: Mapping[str, str]) -> _Layer:
    settings: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    by_variable = {key.variable: key for key in KEYS.values() if key.variable}
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith("SIFMOD_") or not text or variable in _OTHER_VARIABLES:
            continue
        key = by_variable.get(variable)
        if key and key.kind.from_variable:
            try:
                settings[key.name] = key.kind.read(key.kind.from_variable(text))
            except TypeError as error:
                raise SiteError(f"the variable {variable} is '{text}': it takes {error}") from error
            except ValueError as error:
                raise SiteError(f"the variable {variable} is '{text}': {error}") from error
            origins[key.name] = Origin("environment", variable=variable)
            continue
        name = variable[len("SIFMOD_") :].lower()
        if name in _REMOVED:
            release, instead = _REMOVED[name]
            raise SiteError(f"the environment has {variable}, removed in sifmod {release}: unset it; {instead}")
        nearest = perhaps(name, KEYS)
        if nearest:
            raise SiteError(f"the environment has {variable}, which is not a setting{nearest}: unset it")
    return _Layer(settings, origins)
