"""Whether the container runtime makes a user namespace for each container, as it does without setuid."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from sifmod.host.runtime import ContainerRuntime


def makes_user_namespaces(runtime: ContainerRuntime) -> bool:
    """Return whether each container of an ordinary user gets a user namespace of its own.

    Apptainer and SingularityCE need none if the program `starter-suid` is installed with setuid, and if their
    configuration allows it; how they were built names both places. If that is unknown, they are assumed to make one.
    """
    places = runtime.configuration
    package = places.get("PACKAGE_NAME", "").removesuffix("-ce")
    libraries = places.get("LIBEXECDIR", "")
    if not package or not libraries.startswith("/"):
        return True
    starter = Path(libraries, package, "bin", "starter-suid")
    configuration = Path(places.get(f"{package.upper()}_CONF_FILE", ""))
    return not (_is_setuid(starter) and _allows_setuid(configuration))


def _is_setuid(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == 0 and bool(status.st_mode & stat.S_ISUID)


def _allows_setuid(configuration: Path) -> bool:
    try:
        text = configuration.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # the runtime's default
    values = re.findall(r"^\s*allow setuid\s*=\s*(\w+)", text, re.MULTILINE)
    return not values or values[-1] != "no"
