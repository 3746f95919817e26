"""The uv of this host, its settings for a contained container, and the bind paths for files that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Optional

from sifmod import names
from sifmod.container.bind import Bind, is_bindable
from sifmod.errors import InstallError
from sifmod.install.pip import cache_bind, named_paths, network_settings

# These name files of the host, or another environment than user software.
_NOT_PASSED = (
    *("UV_CACHE_DIR", "UV_CONFIG_FILE", "UV_EXCLUDE", "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON"),
    *("UV_SYSTEM_PYTHON", "UV_WORKING_DIR"),
)


def host_uv(environ: Mapping[str, str]) -> tuple[Bind, ...]:
    """Return the bind path of the host's uv for a container that has none; empty if the host has none either.

    A script, such as a wrapper of a loaded module, is not the program. `lend_uv` in `container.sh` has the same rule.

    Args:
        environ: the environment of the user.
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

    The user's configuration file is copied, because the container does not see the home. What the settings or the
    requirements name on disk is bound read-only; the cache is bound only if the user has named its folder.

    Args:
        scratch: private temporary folder, /tmp in the container.
        requirements: the requirements to install.
        environ: the environment of the user.

    Raises:
        InstallError: the configuration file can't be read.
    """
    given = {name: value for name, value in environ.items() if name.startswith("UV_") and name not in _NOT_PASSED}
    given.update(network_settings(environ))
    config = _config(environ)
    words = [word for text in (*given.values(), *requirements) for word in re.split(r"[\s,]+", text)]
    words += re.findall(r"[\"']([^\"'\n]*)[\"']", config or "")
    binds = [Bind(str(path), str(path), "ro") for path in dict.fromkeys(named_paths(words))]
    cache = cache_bind(environ, "UV_CACHE_DIR")
    if cache:
        given["UV_CACHE_DIR"] = cache.destination
        binds.append(cache)
    else:
        # both runs of uv use it, and it is removed with scratch
        given["UV_CACHE_DIR"] = "/tmp/uv-cache"  # noqa: S108 - scratch, in the container
    if config is not None:
        with (scratch / "uv.toml").open("x", encoding="utf-8") as stream:
            stream.write(config)
        given["UV_CONFIG_FILE"] = "/tmp/uv.toml"  # noqa: S108 - scratch, in the container
    return given, tuple(binds)


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
