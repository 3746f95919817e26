"""Credentials of registries, read from where the container runtime and Docker keep them, and never shown."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from sifmod.errors import CommandError
from sifmod.fetch.uri import DOCKER_HUB_HOSTS, DOCKER_HUB_LOGIN
from sifmod.host.command import LOOK, run
from sifmod.site.settings import Site

_PREFIXES = ("APPTAINER", "SINGULARITY")
_VARIABLES = tuple(f"{prefix}_DOCKER_{suffix}" for prefix in _PREFIXES for suffix in ("USERNAME", "PASSWORD"))

# The variables that `take_from_environment` removed.
_taken: dict[str, str] = {}


@dataclass(frozen=True)
class Credentials:
    """User name and password, key or token for one registry; `repr` shows neither. Messages name the origin."""

    username: str = field(repr=False)
    password: str = field(repr=False)
    origin: str = ""

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


def runtime_environment(credentials: Optional[Credentials]) -> dict[str, str]:
    """Return the environment for a runtime that pulls or builds."""
    environ = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    for prefix in _PREFIXES if credentials else ():
        environ[f"{prefix}_DOCKER_USERNAME"] = credentials.username if credentials else ""
        environ[f"{prefix}_DOCKER_PASSWORD"] = credentials.password if credentials else ""
    return environ


def find_credentials(registry: str, site: Site, environ: Optional[Mapping[str, str]] = None) -> Optional[Credentials]:
    """Return the credentials for the host of a registry; None if there are none.

    The variables `APPTAINER_DOCKER_USERNAME`/`_PASSWORD` and their `SINGULARITY_` equivalents come first, unless
    `credential_registries` names other registries; then the login files of the runtimes, and Docker's. The environment
    is by default `os.environ` and the removed variables.
    """
    environ = _whole_environment() if environ is None else environ
    hosts = DOCKER_HUB_HOSTS if registry in DOCKER_HUB_HOSTS else (registry,)
    if not site.credential_registries or set(hosts) & set(site.credential_registries):
        given = _from_variables(environ)
        if given:
            return given
    for path in _login_files(environ):
        credentials = _from_login_file(path, hosts)
        if credentials:
            return credentials
    return None


def find_all_credentials(registries: Collection[str], site: Site) -> dict[str, Credentials]:
    """Return the credentials for registries that a file names of which an image is built, by the host of the registry.

    The file may be somebody else's, and the variables name no registry, so that they count only for those in
    `credential_registries`. A registry that is not known is empty.
    """
    environ = _whole_environment()
    if not site.credential_registries:
        environ = {name: value for name, value in environ.items() if name not in _VARIABLES}
    logins = {registry: find_credentials(registry, site, environ) for registry in registries if registry}
    return {registry: credentials for registry, credentials in logins.items() if credentials}


def kept_back(registry: str) -> str:
    """Return what to do if the password in the environment was meant for a registry; empty if there is none."""
    if not _from_variables(_whole_environment()):
        return ""
    return (
        f"the password in the variables was not sent to {registry}, which 'credential_registries' does not name: if it "
        f"is for this registry, type export SIFMOD_CREDENTIAL_REGISTRIES={registry}"
    )


def login_file(logins: Mapping[str, Credentials]) -> str:
    """Return credentials by registry in the form of Docker's config.json (containers-auth.json(5))."""
    entries = {
        DOCKER_HUB_LOGIN if registry in DOCKER_HUB_HOSTS else registry: {"auth": one.basic.partition(" ")[2]}
        for registry, one in logins.items()
    }
    return json.dumps({"auths": entries})


def secrets() -> tuple[str, ...]:
    """Return the passwords in the environment, which no message may contain."""
    environ = _whole_environment()
    passwords = (environ.get(name, "") for name in _VARIABLES if name.endswith("PASSWORD"))
    return tuple(dict.fromkeys(secret for secret in passwords if secret))


def _whole_environment() -> dict[str, str]:
    return {**os.environ, **_taken}


def _from_variables(environ: Mapping[str, str]) -> Optional[Credentials]:
    for prefix in _PREFIXES:
        name, secret = f"{prefix}_DOCKER_USERNAME", f"{prefix}_DOCKER_PASSWORD"
        if environ.get(name) and environ.get(secret):
            return Credentials(environ[name], environ[secret], f"the variables {name} and {secret}")
    return None


def _login_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield where `registry login` of Apptainer and SingularityCE, and `docker login`, keep what they were told."""
    if environ.get("REGISTRY_AUTH_FILE"):
        yield Path(environ["REGISTRY_AUTH_FILE"])
    places = (
        ("APPTAINER_CONFIGDIR", ".apptainer", "docker-config.json"),
        ("SINGULARITY_CONFIGDIR", ".singularity", "docker-config.json"),
        ("DOCKER_CONFIG", ".docker", "config.json"),
    )
    for variable, folder, name in places:
        if environ.get(variable):
            yield Path(environ[variable], name)
        elif environ.get("HOME"):
            yield Path(environ["HOME"], folder, name)


def _from_login_file(path: Path, hosts: tuple[str, ...]) -> Optional[Credentials]:
    """Return what a file in the form of Docker's config.json has for a host; None if it can't be read.

    The runtime reads its own file too, and reports the error itself.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        helper = _helper(config, hosts)
        if helper:
            return _from_helper(helper, DOCKER_HUB_LOGIN if hosts == DOCKER_HUB_HOSTS else hosts[0])
        for key, entry in config.get("auths", {}).items():
            host = key.partition("://")[2] or key
            if host.partition("/")[0] in hosts and entry.get("auth"):
                username, _colon, password = base64.b64decode(entry["auth"]).decode().partition(":")
                if username and password:  # beside an identity token, the entry has a name alone
                    return Credentials(username, password, f"'{path}'")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return None


def _helper(config: Mapping[str, Any], hosts: tuple[str, ...]) -> str:
    """Return the name of the credential helper that a configuration names for a host; empty if it names none."""
    own = config.get("credHelpers", {})
    name = next((own[host] for host in hosts if host in own), config.get("credsStore", ""))
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]+", name) else ""


def _from_helper(name: str, server: str) -> Optional[Credentials]:
    """Ask a credential helper of Docker (github.com/docker/docker-credential-helpers, README, "Development")."""
    command = f"docker-credential-{name}"
    try:
        done = run([command, "get"], stdin=server, time_limit=LOOK)
    except CommandError:
        return None
    if done.status:
        return None
    answer = json.loads(done.stdout)
    username, password = answer["Username"], answer["Secret"]
    # this name says that the secret is a token, which is no password
    if not isinstance(username, str) or not isinstance(password, str) or username in ("", "<token>") or not password:
        return None
    return Credentials(username, password, f"the credential helper {command}")
