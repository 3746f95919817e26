"""Settings of pip for a contained container, and the bind paths for files that they name."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Optional
from urllib.parse import unquote, urlsplit

from sifmod.container.bind import Bind, is_bindable
from sifmod.errors import InstallError
from sifmod.host.files import content_of
from sifmod.host.runtime import PYTHON_VARIABLES

# In addition to PIP_*: proxies and certificates for an index.
_NETWORK = (
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)
# What pip takes before its own setting: its library "requests" does (Session.merge_environment_settings).
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# They name files of the host: the configuration is merged, the log left out, and the cache bound if the user names it.
_PLACES = ("PIP_CONFIG_FILE", "PIP_LOG", "PIP_CACHE_DIR")

# Settings whose values are paths or addresses, as options of pip.
_PATHS = ("cert", "client-cert", "extra-index-url", "find-links", "index-url")

# uv separates the addresses of its variables by commas or spaces (uv's reference, "Environment variables").
_OF_UV = ("UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_URL", "SSL_CERT_DIR")

# What pip reads for every user of a host (pip's documentation, "Configuration Files").
SITE_CONFIGURATION = "/etc/pip.conf"


def pip_settings(
    scratch: Path, requirements: Iterable[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[Bind, ...]]:
    """Return the variables for pip in a container, and the bind paths that it needs for them.

    The user's configuration files are merged into one, because the container does not see the home. Packages, indices
    and certificates on disk are bound read-only if the settings or the requirements name them. The cache is bound only
    if the user has named its folder, because pip later also trusts it outside the container. The scratch folder is
    private, and /tmp in the container.

    Raises:
        InstallError: a configuration file of pip can't be read.
    """
    given = {
        name: value
        for name, value in environ.items()
        if name.startswith("PIP_") and name not in (*PYTHON_VARIABLES, *_PLACES)
    }
    given.update(network_settings(environ))
    config = _configuration(environ)
    values = [value for _setting, value in _values(config, given)]
    words = [word for text in (*values, *requirements) for word in text.split()]
    binds = [Bind(str(path), str(path), "ro") for path in dict.fromkeys(named_paths(words))]
    cache = cache_bind(environ, "PIP_CACHE_DIR")
    if cache:
        given["PIP_CACHE_DIR"] = cache.destination
        binds.append(cache)
    else:
        given["PIP_NO_CACHE_DIR"] = "1"
    for section in config.sections():
        config.remove_option(section, "cache-dir")
    if config.sections():
        with (scratch / "pip.conf").open("x", encoding="utf-8") as stream:
            config.write(stream)
        given["PIP_CONFIG_FILE"] = "/tmp/pip.conf"  # noqa: S108 - scratch, in the container
    return given, tuple(binds)


def scratch_binds(scratch: Path) -> tuple[Bind, Bind]:
    """Return the bind paths of scratch as /tmp: the runtime's own is in memory, and too small for a large package."""
    return Bind(str(scratch), "/tmp"), Bind(str(scratch), "/var/tmp")  # noqa: S108 - in the container


def _values(config: configparser.RawConfigParser, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings whose values are paths or addresses: where each is set, and its value."""
    for section in config.sections():
        yield from (
            (f"{key} in [{section}] of pip.conf", value) for key, value in config.items(section) if key in _PATHS
        )
    variables = [f"PIP_{key.upper().replace('-', '_')}" for key in _PATHS]
    for name, value in environ.items():
        if name in variables or (name.upper() in _NETWORK and not name.upper().endswith("_PROXY")):
            yield name, value


def named_settings(environ: Mapping[str, str]) -> tuple[tuple[str, Path], ...]:
    """Return the existing paths that settings of pip and uv of the user name: where each is set, and the path."""
    of_uv = [(name, value.replace(",", " ")) for name, value in environ.items() if name in _OF_UV]
    settings = [*_values(_configuration(environ), environ), *of_uv]
    return tuple((setting, path) for setting, value in settings for path in named_paths(value.split()))


def certificates(environ: Mapping[str, str]) -> Optional[Path]:
    """Return the file of certificates that pip is set to trust; None if it uses its own."""
    config = _configuration(environ)
    configured = [config.get(section, "cert", fallback="") for section in ("install", "global")]
    named = [*(environ.get(name, "") for name in (*_CERTIFICATES, "PIP_CERT")), *configured]
    return next((Path(path) for path in named if Path(path).is_absolute() and Path(path).is_file()), None)


def _configuration(environ: Mapping[str, str]) -> configparser.RawConfigParser:
    config = configparser.RawConfigParser(strict=False)
    for path in _files(environ):
        try:
            config.read(path, encoding="utf-8")  # a missing file is ignored
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            raise InstallError(f"pip's configuration file '{path}' can't be read: {error}") from error
    return config


def _files(environ: Mapping[str, str]) -> list[Path]:
    """Return the user's pip configuration files; later ones override (pip's documentation, "Configuration Files")."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    home = environ.get("HOME") or "/"
    base = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return [Path(home, ".pip", "pip.conf"), Path(base, "pip", "pip.conf"), *([Path(named)] if named else [])]


def network_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for proxies and certificates."""
    return {name: value for name, value in environ.items() if name.upper() in _NETWORK}


def cache_bind(environ: Mapping[str, str], variable: str) -> Optional[Bind]:
    """Return the bind path of the folder that the user names for a cache; None without one that can be bound."""
    cache = environ.get(variable, "")
    is_usable = Path(cache).is_absolute() and is_bindable(cache) and Path(cache).is_dir()
    return Bind(cache, cache) if is_usable else None


def named_paths(words: Iterable[str]) -> Iterable[Path]:
    """Return the existing paths among some words, from absolute paths and file:// addresses."""
    for word in words:
        parts = urlsplit(word) if word.startswith(("/", "file://")) else None
        if parts is None or parts.netloc not in ("", "localhost"):
            continue
        path = Path(unquote(parts.path) if parts.scheme else word)
        if path.parts[1:] and path.exists() and is_bindable(str(path)):
            yield path
            # a mirror's index refers to files beside it
            if path.name == "simple":
                yield from _folders_beside(path)


def _folders_beside(index: Path) -> Iterator[Path]:
    """Yield the folders beside an index that have packages: as bandersnatch calls it, and where its pages link to."""
    page = next((page for page in index.glob("*/index.html") if os.access(page, os.R_OK)), None)
    text = content_of(page).decode(errors="replace") if page and page.is_file() else ""
    found = re.search(r"""href=["']?(?:\.\./){2}(\w[^/"'#?]*)(/[^"'#?]*\.(?:whl|tar\.gz|zip))["'#]""", text)
    names = {
        "packages",
        *([unquote(found[1])] if found and (index.parent / unquote(found[1] + found[2])).is_file() else []),
    }
    yield from (
        folder
        for folder in (index.parent / name for name in sorted(names))
        if folder.is_dir() and is_bindable(str(folder))
    )
