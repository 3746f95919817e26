"""The processor architecture of this host, compared with that of an image."""

from __future__ import annotations

import platform

# uname's names of architectures that SIF names differently.
_UNAME = {"amd64": "x86_64", "arm64": "aarch64"}


def why_not_here(architecture: str) -> str:
    """Return why programs of an image do not run on this host; empty if they do, or if its architecture is unknown."""
    here = platform.machine()
    if _UNAME.get(architecture, architecture) in ("", here):
        return ""
    return f"the image is for {architecture}, and this host is {here}"
