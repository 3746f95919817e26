"""Which files are Dockerfiles, by their names, as Docker, Podman and editors have it."""

from __future__ import annotations

_NAMES = ("dockerfile", "containerfile")
_IGNORE = ".dockerignore"


def is_dockerfile(name: str) -> bool:
    """Return whether a file is a Dockerfile; other definitions are definition files of the container runtime.

    Args:
        name: its name without a folder: `Dockerfile`, `Containerfile`, `NAME.Dockerfile`, `Dockerfile.NAME`.
    """
    name = name.casefold()
    if name.endswith(_IGNORE):
        return False
    return any(name == word or name.endswith(f".{word}") or name.startswith(f"{word}.") for word in _NAMES)
