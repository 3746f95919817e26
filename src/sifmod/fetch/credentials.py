"""Credentials of registries, read from where the container runtime reads them, and never shown."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

_VARIABLES = tuple(
    f"{prefix}_DOCKER_{suffix}" for prefix in ("APPTAINER", "SINGULARITY") for suffix in ("USERNAME", "PASSWORD")
)

# The variables that `take_from_environment` removed; only the runtime gets them.
_taken: dict[str, str] = {}

_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True)
class Credentials:
    """User name and password for one registry; `repr` shows neither."""

    username: str = field(repr=False)
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """The value of an HTTP Authorization header (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def take_from_environment() -> None:
    """Remove credentials from `os.environ`, so that a program that logs its environment does not log them."""
    for name in _VARIABLES:
        value = os.environ.pop(name, None)
        if value is not None:
            _taken[name] = value


def runtime_environment() -> dict[str, str]:
    """Return the environment for a runtime that may need credentials."""
    return {**os.environ, **_taken}


def find_credentials(registry: str, environ: Optional[Mapping[str, str]] = None) -> Optional[Credentials]:
    """Return the credentials that the runtime would use for a registry; None if there are none.

    The variables `APPTAINER_DOCKER_USERNAME`/`_PASSWORD` and their `SINGULARITY_` equivalents come first, then the
    login files that `singularity registry login` writes (Apptainer user guide, "Support for Docker and OCI").

    Args:
        registry: host of the registry.
        environ: the environment to read; by default `os.environ` and the removed variables.
    """
    environ = runtime_environment() if environ is None else environ
    for prefix in ("APPTAINER", "SINGULARITY"):
        username, password = environ.get(f"{prefix}_DOCKER_USERNAME"), environ.get(f"{prefix}_DOCKER_PASSWORD")
        if username and password:
            return Credentials(username, password)
    for path in _login_files(environ):
        found = _from_login_file(path, registry)
        if found:
            return found
    return None


def secrets(environ: Optional[Mapping[str, str]] = None) -> tuple[str, ...]:
    """Return the passwords in the environment, which no message may contain."""
    environ = runtime_environment() if environ is None else environ
    found = (environ.get(f"{prefix}_DOCKER_PASSWORD", "") for prefix in ("APPTAINER", "SINGULARITY"))
    return tuple(dict.fromkeys(secret for secret in found if secret))


def _login_files(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("REGISTRY_AUTH_FILE"):
        yield Path(environ["REGISTRY_AUTH_FILE"])
    for variable, folder in (("APPTAINER_CONFIGDIR", ".apptainer"), ("SINGULARITY_CONFIGDIR", ".singularity")):
        if environ.get(variable):
            yield Path(environ[variable]) / "docker-config.json"
        elif environ.get("HOME"):
            yield Path(environ["HOME"]) / folder / "docker-config.json"


def _from_login_file(path: Path, registry: str) -> Optional[Credentials]:
    hosts = _DOCKER_HUB if registry in _DOCKER_HUB else (registry,)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["auths"]
        for key, entry in entries.items():
            host = key.partition("://")[2] or key
            if host.partition("/")[0] in hosts and entry.get("auth"):
                username, _colon, password = base64.b64decode(entry["auth"]).decode().partition(":")
                return Credentials(username, password)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        # the runtime reads this file too, and reports the error itself
        return None
    return None
