"""A site: the settings of one cluster, read from TOML files and SIFMOD_* variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

from sifmod import names
from sifmod.container.bind import Bind
from sifmod.container.gpu import LIBRARIES, VENDORS
from sifmod.errors import SiteError
from sifmod.resources import data_path
from sifmod.site.file import SiteFile, place
from sifmod.site.keys import (
    BINDS,
    BLOCK_SIZE,
    CACHE,
    COMPRESSORS,
    FLAG,
    HOSTS,
    LEVELS,
    MASKS,
    PATH,
    PATHS,
    TEXT,
    VARIABLES,
    Kind,
    WrongItemError,
    choice,
    number,
)
from sifmod.text.suggest import perhaps

# Variables of sifmod that are not settings of a site.
_OTHER_VARIABLES = (
    "SIFMOD_PYTHONPATH",
    "SIFMOD_RELOADS",
    "SIFMOD_RUNTIME_OPTIONS",
    "SIFMOD_SITE",
    "SIFMOD_USER_BINDPATH",
    "SIFMOD_VERBOSE",
)


def _key(kind: Kind, default: Any, help_text: str) -> Any:
    """Describe one key of a site file: its kind, its default and its meaning."""
    metadata = {"kind": kind, "help": help_text}
    if isinstance(default, dict):
        return field(default_factory=lambda: MappingProxyType(dict(default)), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Site:
    """The settings of one cluster, merged from all origins.

    The keys of a site file are the fields after `name`.

    Attributes:
        name: name or path of the site file.
    """

    name: str
    runtime: str = _key(
        TEXT, "", "Command of the container runtime. If empty, `singularity` is tried first, then `apptainer`."
    )
    binds: tuple[Bind, ...] = _key(BINDS, (), "Bind paths for every container. They must exist on every node.")
    optional_binds: tuple[Bind, ...] = _key(BINDS, (), "Bind paths used on the nodes where their source exists.")
    image_repositories: tuple[str, ...] = _key(
        PATHS, (), "Directories with the site's central images, searched in this order."
    )
    insecure_registries: tuple[str, ...] = _key(
        HOSTS,
        (),
        "Registries accessed over plain HTTP. If there is one, definition files are built with `--no-https`.",
    )
    credential_registries: tuple[str, ...] = _key(
        HOSTS,
        (),
        "Registries that SINGULARITY_DOCKER_USERNAME and _PASSWORD are for. If empty, the registry of the image.",
    )
    token_services: tuple[str, ...] = _key(
        HOSTS, (), "Token services that may get passwords, in addition to those on the registry's own domain."
    )
    runtime_tmpdir: str = _key(PATH, "", "Temporary folder of the runtime for pulls and builds. It must exist.")
    runtime_cachedir: str = _key(PATH, "", "Cache folder of the runtime. The runtime creates it.")
    replaced_image: str = _key(
        choice("keep", "remove", empty="keep"),
        "keep",
        "keep: the image that a rebuild to another file name replaces stays until the next rebuild, for running jobs "
        "and loaded shells. remove: it goes when the new module is in place.",
    )
    signatures: str = _key(
        choice("none", "required", empty="none"),
        "none",
        "With `required`, images without a valid signature (`singularity verify`) are refused before the install.",
    )
    signature_key: str = _key(
        PATH, "", "PEM file of the public key to check signatures with. If empty, the runtime's local keyring is used."
    )
    gpu: str = _key(
        choice(*VENDORS),
        "",
        "Vendor of the cluster's GPUs, for easyconfigs that do not set `gpu`.",
    )
    gpu_libraries: str = _key(
        choice(*LIBRARIES),
        "",
        "Whose libraries programs use on GPUs, for easyconfigs that do not set `gpu_libraries`: `host`, the default, "
        "or `image`.",
    )
    user_commands: bool = _key(
        FLAG,
        True,
        "Whether commands that users install with pip are commands on the host too, for easyconfigs that do not set "
        "`user_commands`.",
    )
    cpu_bind_masks: tuple[str, ...] = _key(
        MASKS, (), "CPU masks for the tasks of a GPU node, in the order of their GPUs (`srun --cpu-bind=mask_cpu:`)."
    )
    slurm_partition: str = _key(
        TEXT, "", "Slurm partition for jobs with GPUs (`sifmod sbatch`), unless the user names another."
    )
    slurm_account: str = _key(TEXT, "", "Slurm account for jobs (`sifmod sbatch`), unless the user names another.")
    installer: str = _key(
        choice("pip", "uv", empty="pip"),
        "pip",
        "What installs `pip_requirements`, and packages in `carry-over`. uv is the image's, else the host's; if "
        "neither has one, pip is used.",
    )
    pack_compressor: str = _key(choice(*COMPRESSORS, empty="zstd"), "zstd", "Compressor of `make-squashfs`.")
    pack_level: int = _key(
        number(1, 22),
        6,
        "Compression level of `make-squashfs`: up to 22 for zstd, 9 for gzip and lzo. The others have no levels.",
    )
    pack_block_size: str = _key(BLOCK_SIZE, "128K", "Block size of `make-squashfs`.")
    pack_processors: int = _key(
        number(0, 9999), 0, "Most processors that `make-squashfs` uses; 0 for all that the process may use."
    )
    container_env: Mapping[str, str] = _key(VARIABLES, {}, "Variables for every container.")
    cache: Mapping[str, str] = _key(
        CACHE,
        {},
        "Each user's folder for caches, and the variables that point below it: see [caches](#caches).",
    )
    master_suffix: str = _key(
        TEXT, "", "Suffix that `get-master` appends to the host name: that of host names in the fast network."
    )

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Commands of container runtimes to try, in this order."""
        return (self.runtime,) if self.runtime else names.CONTAINER_RUNTIMES

    @property
    def runtime_is_missing(self) -> str:
        """The message for a node that has none of them."""
        return (
            f"no container runtime on this node: looked for {' and '.join(self.runtimes)} on PATH. Load its module, "
            "use a node that has one, or set 'runtime' in the site file"
        )

    @property
    def easyconfig_defaults(self) -> dict[str, Any]:
        """Defaults for parameters that an easyconfig does not set."""
        return {"gpu": self.gpu, "gpu_libraries": self.gpu_libraries, "user_commands": self.user_commands}


@dataclass(frozen=True)
class Key:
    """One key of a site file.

    Attributes:
        name: the key.
        kind: kind of its values.
        help_text: its meaning.
        default: its default.
    """

    name: str
    kind: Kind
    help_text: str
    default: Any

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty if there is none."""
        return f"SIFMOD_{self.name.upper()}" if self.kind.from_variable else ""


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        item.name: Key(item.name, item.metadata["kind"], item.metadata["help"], getattr(Site(name=""), item.name))
        for item in fields(Site)
        if item.name != "name"
    }
)


@dataclass(frozen=True)
class Origin:
    """Where a setting comes from.

    Attributes:
        layer: `default`, `site`, `user` or `environment`.
        file: path of the file; empty for the other layers.
        line: line in that file; 0 if it isn't known.
        variable: name of the environment variable; empty for the other layers.
    """

    layer: str
    file: str = ""
    line: int = 0
    variable: str = ""

    def __str__(self) -> str:
        if self.file:
            return f"{self.file}:{self.line}" if self.line else self.file
        return self.variable or self.layer


@dataclass(frozen=True)
class Entry:
    """One setting in force: a key, or one entry of a table such as `container_env` under its dotted name.

    Attributes:
        name: the key, such as `runtime` or `container_env.OMP_NUM_THREADS`.
        value: the setting.
        origin: where it comes from.
    """

    name: str
    value: Any
    origin: Origin


@dataclass(frozen=True)
class Settings:
    """A site with the origins of its settings.

    Attributes:
        site: the settings in force.
        path: the site file.
        origins: origin of each key that is not at its default, and of each entry of a table, such as
            `container_env.NAME`.
    """

    site: Site
    path: Path
    origins: Mapping[str, Origin]

    def entries(self) -> Iterator[Entry]:
        """Yield all settings in the order of the documentation, including those at their default."""
        for name in KEYS:
            value = getattr(self.site, name)
            if isinstance(value, Mapping) and value:
                for inner, content in value.items():
                    yield Entry(f"{name}.{inner}", content, self.origins[f"{name}.{inner}"])
            else:
                yield Entry(name, value, self.origins.get(name, Origin("default")))


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

    The site file is named by `SIFMOD_SITE`, or by the key `site` of the user's file
    (`$XDG_CONFIG_HOME/sifmod/config.toml`), as a shipped name or a path; without either it is `generic`. An easyconfig
    overrides all of them.

    Args:
        environ: the environment to read, `os.environ` by default.
        site: name or path of the site file; overrides `SIFMOD_SITE` and the user's file.

    Raises:
        SiteError: a file is missing or can't be read, a key is unknown, or a value has a wrong type or meaning.
    """
    environ = os.environ if environ is None else environ
    user_path = _user_file(environ)
    user, users_site = _Layer({}, {}), ""
    if user_path and _is_present(user_path):
        user_file = SiteFile.read(user_path)
        if "site" in user_file.values:
            users_site = _converted(user_file, "site", TEXT, user_file.values.pop("site"))
        user = _from_file(user_file, "user")
    chosen = site or environ.get("SIFMOD_SITE") or users_site or "generic"
    path = _site_file(chosen)
    settings: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for layer in (_from_file(SiteFile.read(path), "site"), user, _from_variables(environ)):
        for key, value in layer.settings.items():
            is_table = isinstance(value, Mapping)
            settings[key] = MappingProxyType({**settings.get(key, {}), **value}) if is_table else value
        origins.update(layer.origins)
    merged = Site(name=chosen, **settings)
    _check_level(merged, origins)
    return Settings(merged, path, MappingProxyType(origins))


def _check_level(site: Site, origins: Mapping[str, Origin]) -> None:
    highest = LEVELS.get(site.pack_compressor)
    if highest and site.pack_level > highest:
        said = " and ".join(f"{key} ({origins[key]})" for key in ("pack_compressor", "pack_level") if key in origins)
        raise SiteError(
            f"pack_level is {site.pack_level}, but {site.pack_compressor} only has levels from 1 to {highest}: correct "
            f"{said}"
        )


def _user_file(environ: Mapping[str, str]) -> Optional[Path]:
    base = environ.get("XDG_CONFIG_HOME") or (environ["HOME"] + "/.config" if environ.get("HOME") else "")
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
    settings: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for key, value in file.values.items():
        if key not in KEYS:
            where = place(file.path, file.line(key)).rstrip(",")
            raise SiteError(
                f"unknown key '{key}' in {where}{perhaps(key, KEYS)}: remove it, or write one of {', '.join(KEYS)}"
            )
        for name in value if isinstance(value, Mapping) else ():
            if name in KEYS:
                raise SiteError(
                    f"{place(file.path, file.line(key, name))} has {name} in the table {key}, which holds variables "
                    f"of the container: write the key {name} above the line [{key}]"
                )
        settings[key] = _converted(file, key, KEYS[key].kind, value)
        if isinstance(settings[key], Mapping):
            for name in settings[key]:
                origins[f"{key}.{name}"] = Origin(layer, str(file.path), file.line(key, name))
        else:
            origins[key] = Origin(layer, str(file.path), file.line(key))
    return _Layer(settings, origins)


def _converted(file: SiteFile, key: str, kind: Kind, value: Any) -> Any:
    try:
        return kind.read(value)
    except WrongItemError as error:
        if isinstance(value, Mapping):
            where, item = file.line(key, error.item), f"{error.item} = {_shown(value[error.item])}"
        else:
            where, item = file.line_of_item(key, error.item), repr(error.item)
        raise SiteError(f"{place(file.path, where)} has {item} in {key}: {error}") from error
    except TypeError as error:
        raise SiteError(f"{place(file.path, file.line(key))} has {key} = {_shown(value)}: it takes {error}") from error
    except ValueError as error:
        raise SiteError(f"{place(file.path, file.line(key))} has {key} = {_shown(value)}: {error}") from error


def _shown(value: Any) -> str:
    """Return a wrong value as a message can show it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits than Python writes, or a table in a table in ...
        return "a value that is too long to be shown"
    return text if len(text) <= 200 else f"{text[:197]}..."


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
        nearest = perhaps(variable[len("SIFMOD_") :].lower(), KEYS)
        if nearest:
            raise SiteError(f"the environment has {variable}, which is not a setting{nearest}: unset it")
    return _Layer(settings, origins)
