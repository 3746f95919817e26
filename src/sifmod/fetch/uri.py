"""An image URI: where to fetch a container image from, in the syntax of the container runtime."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from sifmod.errors import ParameterError
from sifmod.text.digest import DIGEST
from sifmod.text.printable import is_utf8
from sifmod.text.suggest import perhaps

REGISTRY_SCHEMES = ("docker", "oras")
ARCHIVE_SCHEMES = ("docker-archive", "oci-archive")
DOCKER_DAEMON = "docker-daemon"
LOCAL_SCHEMES = (DOCKER_DAEMON, "containers-storage")
SCHEMES = (*REGISTRY_SCHEMES, "library", "https", *ARCHIVE_SCHEMES, *LOCAL_SCHEMES)

# Docker Hub: the name in references, the host of its registry, and all names that stand for it.
DOCKER_HUB = "docker.io"
DOCKER_HUB_REGISTRY = "registry-1.docker.io"
DOCKER_HUB_HOSTS = (DOCKER_HUB, "index.docker.io", DOCKER_HUB_REGISTRY)
# Docker and the runtimes keep its login under this address.
DOCKER_HUB_LOGIN = "https://index.docker.io/v1/"

# A reference as docker, buildah and podman print it: HOST/NAME:TAG; the ID of the image is checked as a digest.
_WORD = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?{_WORD}(?:/{_WORD})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?"
)


@dataclass(frozen=True)
class ImageUri:
    """One image URI with valid syntax."""

    text: str  # the URI as written in the easyconfig
    scheme: str  # one of `SCHEMES`
    location: str  # the part after the scheme: a reference, an address or a path

    @classmethod
    def parse(cls, text: str) -> ImageUri:
        """Parse a URI such as `docker://nvcr.io/nvidia/pytorch:24.03-py3` or `oci-archive:/path/image.tar`.

        Raises:
            ValueError: it is not a valid image URI; the message says why and what to write.
        """
        scheme, colon, location = text.partition(":")
        if not colon or scheme not in SCHEMES:
            if text.startswith("/"):
                raise ValueError("it is a path: write it in sources, a directory with image_mode = 'central'")
            similar = perhaps(scheme, SCHEMES)
            if not similar and _REFERENCE.fullmatch(text):  # as `docker pull` and `podman pull` take it
                similar = f" (perhaps you meant 'docker://{text}')"
            raise ValueError(f"'{scheme}' is not an image scheme{similar}: use {', '.join(SCHEMES)}")
        if re.search(r"[\x00-\x20\x7f]", text):
            raise ValueError("an image URI can't contain white space: remove it")
        if not is_utf8(text):
            raise ValueError("it has bytes that are not UTF-8: rename the file or correct the address")
        if scheme in ARCHIVE_SCHEMES:
            if not location.startswith("/") or location.startswith("//"):
                raise ValueError(f"write the absolute path of the archive: {scheme}:/path/image.tar")
            return cls(text, scheme, location)
        if scheme in LOCAL_SCHEMES:
            name, at, identifier = location.partition("@")
            if not _REFERENCE.fullmatch(name):
                raise ValueError(f"write the name and the tag of an image on this host: {scheme}:NAME:TAG")
            if at and not DIGEST.fullmatch(identifier):
                raise ValueError("the text after '@' is not an image ID: write @sha256: and 64 hexadecimal digits")
            return cls(text, scheme, location)
        if not location.startswith("//") or not location.strip("/"):
            raise ValueError(f"write it as {scheme}://...")
        location = location[2:]
        first, slash, _rest = location.partition("/")
        if slash and "@" in first:  # without a slash it is a digest, as in docker://debian@sha256:...
            raise ValueError(
                "credentials do not belong in an easyconfig: set SINGULARITY_DOCKER_USERNAME and _PASSWORD"
            )
        if "@" in location and not DIGEST.fullmatch(location.partition("@")[2]):
            raise ValueError("the text after '@' is not a digest: write @sha256: and 64 hexadecimal digits")
        return cls(text, scheme, location)

    @property
    def digest(self) -> str:
        """The digest, or the ID of a local image, that the URI is pinned to, as `sha256:...`; empty if not pinned."""
        return self.location.partition("@")[2] if self.scheme not in ARCHIVE_SCHEMES else ""

    @property
    def registry(self) -> str:
        """Host of the registry, with the port if there is one; empty for schemes without a registry."""
        if self.scheme not in REGISTRY_SCHEMES:
            return ""
        first, slash, _rest = self.location.partition("/")
        is_host = slash and ("." in first or ":" in first or first == "localhost")
        return first if is_host else DOCKER_HUB

    @property
    def repository(self) -> str:
        """Name of the repository in its registry, such as `nvidia/pytorch`."""
        path = self.location.partition("@")[0]
        if path.startswith(f"{self.registry}/"):
            path = path[len(self.registry) + 1 :]
        path = re.sub(r":[^/:]*$", "", path)
        return f"library/{path}" if self.registry == DOCKER_HUB and "/" not in path else path

    @property
    def tag(self) -> str:
        """The tag; `latest` if the URI has none."""
        return self.named_tag or "latest"

    @property
    def named_tag(self) -> str:
        """The tag that the URI names; empty if it has none."""
        match = re.search(r":([^/:]+)$", self.location.partition("@")[0])
        return match[1] if match else ""

    def pinned(self, digest: str) -> str:
        """Return the URI with a digest in place of its tag, or with the ID of a local image."""
        if self.scheme in LOCAL_SCHEMES:
            return f"{self.scheme}:{self.location.partition('@')[0]}@{digest}"
        return f"{self.scheme}://{self.registry}/{self.repository}@{digest}"

    def with_digest(self, digest: str) -> ImageUri:
        """Return the URI with a digest, or the ID of a local image, behind its tag, which says what to update to."""
        begin = self.text.partition("@")[0]
        return ImageUri(f"{begin}@{digest}", self.scheme, f"{self.location.partition('@')[0]}@{digest}")

    @property
    def file_name(self) -> str:
        """File name of the image in a folder of images: readable, and different for different URIs."""
        path = self.location.partition("@")[0].rstrip("/")
        stem = re.sub(r"\.(sif|tar|tgz|tar\.gz)$", "", path.rpartition("/")[2])
        stem = re.sub(r"[^A-Za-z0-9_.+-]+", "_", stem).lstrip("._-") or "image"
        return f"{stem}-{hashlib.sha256(self.text.encode()).hexdigest()[:8]}.sif"


def image_uri(value: Any) -> ImageUri:
    """Return the image URI of an easyconfig; ParameterError if it is not a valid one."""
    if not isinstance(value, str):
        raise ParameterError("image_uri", value, "use one URI in quotes, such as 'docker://debian:12'")
    try:
        return ImageUri.parse(value)
    except ValueError as error:
        raise ParameterError("image_uri", value, str(error)) from error
