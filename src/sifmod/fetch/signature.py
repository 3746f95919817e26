"""The site's policy on signed images."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sifmod.errors import ImageError
from sifmod.host.runtime import ContainerRuntime, last_lines
from sifmod.site.settings import Site


def check_signature(runtime: ContainerRuntime, image: Path, site: Site) -> None:
    """Verify an image with the runtime where the site requires it.

    Raises:
        ImageError: the image is not signed, or by nobody whose key the site trusts.
    """
    if site.signatures != "required":
        return
    # without a key file only the local keyring counts: whoever uploads a key to a server is not trusted for that
    keys = ["--key", site.signature_key] if site.signature_key else ["--local"]
    done = subprocess.run(  # noqa: S603 - an argument list, no shell
        [str(runtime.path), "verify", *keys, str(image)], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        trusted = f"the key '{site.signature_key}'" if site.signature_key else "a key of the local keyring"
        raise ImageError(
            f"the site '{site.name}' requires signed images, and '{image}' has no valid signature by {trusted}. Use an "
            "image that is signed, or ask the site's administrators; singularity verify said: " + last_lines(done)
        )
