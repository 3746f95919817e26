"""The uv of this host, its settings for a contained container, and the bind paths for files that they name."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Optional

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from sifmod import names
from sifmod.container.bind import Bind, is_bindable
from sifmod.errors import InstallError
from sifmod.install.pip import cache_bind, named_paths, network_settings

# Variables whose values are paths or addresses: of indices, of packages, of files of requirements.
_PATHS = (
    *("UV_BUILD_CONSTRAINT", "UV_CONSTRAINT", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX"),
    *("UV_INDEX_URL", "UV_OVERRIDE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),
)
# The others that `uv pip install` reads. Of more than these, some are secrets, such as UV_PUBLISH_TOKEN, and some name
# another environment than user software.
_PASSED = re.compile(
    "|".join(_PATHS)
    + r"|UV_INDEX_\w+_(?:USERNAME|PASSWORD)|UV_(?:INDEX_STRATEGY|KEYRING_PROVIDER|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS"
    r"|HTTP_\w*TIMEOUT|HTTP_RETRIES|REQUEST_TIMEOUT|LOCK_TIMEOUT|CONCURRENT_\w+|OFFLINE|NO_INDEX|NO_CACHE|RESOLUTION"
    r"|PRERELEASE|FORK_STRATEGY|EXCLUDE_NEWER|TORCH_BACKEND|NO_(?:BINARY|BUILD|SOURCES)\w*|REQUIRE_HASHES"
    r"|VERIFY_HASHES|NO_VERIFY_HASHES|LINK_MODE|COMPILE_BYTECODE|COMPILE_BYTECODE_TIMEOUT|NO_CONFIG|NO_PROGRESS|PREVIEW\w*)"
)


def host_uv(environ: Mapping[str, str]) -> tuple[Bind, ...]:
    """Return the bind path of the host's uv for a container that has none; empty if the host has none either.

    A script, such as a wrapper of a loaded module, is not the program. `lend_uv` in `share/lend.sh` has the same rule.
    """
    for folder in environ.get("PATH", "").split(":"):
        path = Path(folder, "uv")
        if folder.startswith("/") and is_bindable(str(path)) and _is_program(path):
            return (Bind(str(path), names.HOST_UV, "ro"),)
    return ()


def _is_program(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def uv_settings(
    scratch: Path, requirements: Iterable[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[Bind, ...]]:
    """Return the variables for uv in a container, and the bind paths that it needs for them.

    The user's configuration file is copied, because the container does not see the home. What settings of
    indices and packages, or the requirements, name on disk is bound read-only; the cache is bound only if the user has
    named its folder.
    """
    given = {name: value for name, value in environ.items() if name.startswith("UV_") and _PASSED.fullmatch(name)}
    given.update(network_settings(environ))
    config = _config(environ)
    named = (value for name, value in given.items() if name.upper() in _PATHS)
    words = [word for text in (*named, *requirements) for word in re.split(r"[\s,]+", text)]
    words += _places(config or "")
    binds = [Bind(str(path), str(path), "ro") for path in dict.fromkeys(named_paths(words))]
    cache = cache_bind(environ, "UV_CACHE_DIR")
    if cache:
        given["UV_CACHE_DIR"] = cache.destination
        binds.append(cache)
    else:
        # it is removed with scratch
        given["UV_CACHE_DIR"] = "/tmp/uv-cache"  # noqa: S108 - scratch, in the container
    if config is not None:
        with (scratch / "uv.toml").open("x", encoding="utf-8") as stream:
            stream.write(config)
        given["UV_CONFIG_FILE"] = "/tmp/uv.toml"  # noqa: S108 - scratch, in the container
    return given, tuple(binds)


def _places(config: str) -> Iterator[str]:
    """Yield the paths and addresses of packages in a configuration file (uv's reference, "Settings")."""
    with contextlib.suppress(tomllib.TOMLDecodeError, RecursionError):  # uv says what is wrong with it
        settings = tomllib.loads(config)
        for table in (settings, settings.get("pip")):
            found = table if isinstance(table, dict) else {}
            listed = (found.get(key) for key in ("extra-index-url", "find-links", "index"))
            values = [found.get("index-url"), *(one for many in listed if isinstance(many, list) for one in many)]
            for value in values:
                place = value.get("url") if isinstance(value, dict) else value
                if isinstance(place, str):
                    yield place


def _config(environ: Mapping[str, str]) -> Optional[str]:
    """Return the text of the user's configuration file; None if there is none."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME') or '/'}/.config"
    path = Path(environ.get("UV_CONFIG_FILE") or f"{base}/uv/uv.toml")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InstallError(f"uv's configuration file '{path}' can't be read: {error}") from error
