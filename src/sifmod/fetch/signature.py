"""The site's policy on signed images."""

from __future__ import annotations

from pathlib import Path

from sifmod.errors import ImageError
from sifmod.host.command import run
from sifmod.host.runtime import ContainerRuntime
from sifmod.site.settings import Site


def check_signature(runtime: ContainerRuntime, image: Path, site: Site, *, source: Path) -> None:
    """Verify the signature of an image with the runtime, if the site requires signatures; `source` is for the message.

    Raises:
        ImageError: the image is not signed, or not by a key that the site trusts.
    """
    if site.signatures != "required":
        return
    if not runtime.starts_sifs:
        raise ImageError(
            f"the site '{site.name}' requires signed images, and {runtime.path.name} verifies no signatures: install "
            "on a node with Apptainer or SingularityCE"
        )
    # without a key file only the local keyring counts: anyone can upload a key to a key server
    keys = ["--key", site.signature_key] if site.signature_key else ["--local"]
    done = run([runtime.path, "verify", *keys, image])
    if done.status:
        trusted = f"the key '{site.signature_key}'" if site.signature_key else "a key of the local keyring"
        raise ImageError(
            f"the site '{site.name}' requires signed images, but '{source}' has no valid signature by {trusted}. Use a "
            "signed image, or ask the site's administrators; singularity verify printed: " + done.last_lines
        )
