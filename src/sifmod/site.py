"""A site: what one cluster knows about itself, read from TOML files and SIFMOD_* variables."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Optional

from sifmod import names
from sifmod.bind import Bind
from sifmod.errors import SiteError
from sifmod.resources import data_path
from sifmod.suggest import perhaps

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Variables of sifmod that are no settings of a site.
_OTHER_VARIABLES = ("SIFMOD_RELOADS", "SIFMOD_SITE", "SIFMOD_USER_BINDPATH", "SIFMOD_VERBOSE")

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError('a string in quotes, such as key = "value"')
    return value


def _path(value: Any) -> str:
    path = os.path.expanduser(os.path.expandvars(_text(value)))  # noqa: PTH111 - text, no Path: it may be empty
    if path and not path.startswith("/"):
        raise ValueError(f"'{path}' is not an absolute path: begin it with '/'")
    return path


def _signatures(value: Any) -> str:
    policy = _text(value) or "none"
    if policy not in ("none", "required"):
        raise ValueError("use 'none' or 'required'")
    return policy


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError('a list of strings, such as key = ["one", "two"]')
    return tuple(value)


def _paths(value: Any) -> tuple[str, ...]:
    for item in _texts(value):
        if not item.startswith("/"):
            raise ValueError(f"'{item}' is not an absolute path: begin it with '/'")
    return tuple(value)


def _binds(value: Any) -> tuple[Bind, ...]:
    return tuple(Bind.parse(item) for item in _texts(value))


def _binds_of_variable(text: str) -> list[str]:
    return [bind.argument for bind in Bind.parse_list(text)]


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError("a table of NAME = value lines")
    for name, content in value.items():
        if not VARIABLE_NAME.fullmatch(name):
            raise ValueError(f"'{name}' is not the name of an environment variable")
        if name in names.RESERVED_VARIABLES:
            raise ValueError(f"{name} is set by sifmod itself: leave it out")
        if not isinstance(content, str) or "\n" in content or "\0" in content:
            raise TypeError(f'a string on one line for {name}, such as {name} = "1"')
    return MappingProxyType(dict(value))


def _words_of_variable(text: str) -> list[str]:
    return text.split(",")


def _paths_of_variable(text: str) -> list[str]:
    return [item for item in text.split(":") if item]


def _key(read: Callable[[Any], Any], help_text: str, variable: Optional[Callable[[str], Any]] = None) -> Any:
    """Describe one key: how its TOML value is read, what it means, how its SIFMOD_* variable becomes a TOML value."""
    default = read({} if read is _variables else "" if read in (_text, _path, _signatures) else [])
    metadata = {"read": read, "help": help_text, "variable": variable}
    if read is _variables:
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Site:
    """The settings of one cluster, merged from all their origins.

    The keys of a site file are the fields from `runtime` on.

    Attributes:
        name: name or path of the site file that was used.
    """

    name: str
    runtime: str = _key(
        _text, "Command of the container runtime; without it `singularity`, then `apptainer` is looked for.", str
    )
    binds: tuple[Bind, ...] = _key(_binds, "Bind paths that every container gets: they must exist.", _binds_of_variable)
    optional_binds: tuple[Bind, ...] = _key(
        _binds, "Bind paths used on the nodes where their source exists.", _binds_of_variable
    )
    image_repositories: tuple[str, ...] = _key(
        _paths, "Directories of the site's central images, searched in this order.", _paths_of_variable
    )
    insecure_registries: tuple[str, ...] = _key(
        _texts, "Registries (host:port) that are spoken to in plain HTTP; none by default.", _words_of_variable
    )
    runtime_tmpdir: str = _key(_path, "Temporary folder of the runtime while it pulls and builds.", str)
    runtime_cachedir: str = _key(_path, "Cache folder of the runtime.", str)
    signatures: str = _key(_signatures, "'none', or 'required': every image must have a valid signature.", str)
    signature_key: str = _key(
        _path, "PEM file of the public key that signatures are checked with; else the runtime's own keyring.", str
    )
    container_env: Mapping[str, str] = _key(_variables, "Variables injected into every container.")
    master_suffix: str = _key(_text, "Appended to the master's host name: the suffix of the fast network's names.", str)


_KEYS = {key.name: key for key in fields(Site) if key.name != "name"}


def shipped_sites() -> list[str]:
    """Return the names of the site files that come with the package, sorted."""
    return sorted(path.stem for path in data_path("sites").glob("*.toml"))


def load_site(environ: Optional[Mapping[str, str]] = None) -> Site:
    """Return the settings in force: package defaults < site file < user's file < SIFMOD_* variables.

    The site file is named by `SIFMOD_SITE`, or by the key `site` of the user's file
    (`$XDG_CONFIG_HOME/sifmod/config.toml`), as a shipped name or a path; without either it is `generic`.

    Args:
        environ: the environment to read, `os.environ` by default.

    Raises:
        SiteError: a file is missing or can't be read, a key is unknown, or a value has a wrong type or meaning.
    """
    environ = os.environ if environ is None else environ
    user_path = _user_file(environ)
    user = _read(user_path, allow_site=True) if user_path and user_path.is_file() else {}
    chosen = environ.get("SIFMOD_SITE") or user.pop("site", "generic")
    user.pop("site", None)
    settings = {**_read(_site_file(chosen))}
    layers = [(f"'{user_path}'", user), ("the environment", _from_variables(environ))]
    for _origin, layer in layers:
        for key, value in layer.items():
            settings[key] = {**settings.get(key, {}), **value} if isinstance(value, Mapping) else value
    return Site(name=chosen, **settings)


def _user_file(environ: Mapping[str, str]) -> Optional[Path]:
    base = environ.get("XDG_CONFIG_HOME") or (environ["HOME"] + "/.config" if environ.get("HOME") else "")
    return Path(base) / "sifmod" / "config.toml" if base else None


def _site_file(chosen: str) -> Path:
    if "/" in chosen or chosen.endswith(".toml"):
        path = Path(chosen).expanduser()
        if not path.is_file():
            raise SiteError(f"the site file '{path}', named by SIFMOD_SITE or the user's settings, does not exist")
        return path
    path = data_path("sites") / f"{chosen}.toml"
    if not path.is_file():
        names = shipped_sites()
        raise SiteError(
            f"there is no site '{chosen}'{perhaps(chosen, names)}: SIFMOD_SITE takes the path of a site file "
            f"or one of {', '.join(names)}"
        )
    return path


def _read(path: Path, *, allow_site: bool = False) -> dict[str, Any]:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SiteError(f"the site file '{path}' can't be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SiteError(f"the site file '{path}' is not valid TOML: {error}") from error
    settings = {}
    for key, value in raw.items():
        if allow_site and key == "site":
            settings[key] = _converted(f"'{path}'", key, _text, value)
        elif key in _KEYS:
            settings[key] = _converted(f"'{path}'", key, _KEYS[key].metadata["read"], value)
        else:
            raise SiteError(
                f"unknown key '{key}' in the site file '{path}'{perhaps(key, _KEYS)}: remove it, or write one of "
                f"{', '.join(_KEYS)}"
            )
    return settings


def _from_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    settings = {}
    for variable in sorted(environ):
        if not variable.startswith("SIFMOD_") or not environ[variable] or variable in _OTHER_VARIABLES:
            continue
        key = variable[len("SIFMOD_") :].lower()
        if key in _KEYS and _KEYS[key].metadata["variable"]:
            settings[key] = _converted("the environment", variable, partial(_read_variable, key), environ[variable])
        elif perhaps(key, _KEYS):
            raise SiteError(f"the environment has {variable}, which is no setting{perhaps(key, _KEYS)}: unset it")
    return settings


def _read_variable(key: str, text: str) -> Any:
    metadata = _KEYS[key].metadata
    return metadata["read"](metadata["variable"](text))


def _converted(origin: str, key: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except TypeError as error:
        raise SiteError(f"{key} in {origin} is {value!r}: it takes {error}") from error
    except ValueError as error:
        raise SiteError(f"{key} in {origin} is {value!r}: {error}") from error
