"""Resolving a tag to its digest in a registry (OCI distribution specification, "Pulling manifests")."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Optional

from sifmod.errors import ImageError
from sifmod.fetch.credentials import Credentials
from sifmod.fetch.uri import ImageUri

_TIMEOUT = 20  # seconds; a registry that takes longer for a header counts as unreachable

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


@dataclass(frozen=True)
class Registry:
    """One registry and how to access it.

    Attributes:
        uri: the requested image.
        credentials: user name and password; None if there are none.
        plain_http: whether the site allows plain HTTP for this registry.
    """

    uri: ImageUri
    credentials: Optional[Credentials]
    plain_http: bool = False

    def digest(self) -> str:
        """Return the digest of the image's tag, as `sha256:...`; empty if the registry can't be reached from here.

        Raises:
            ImageError: the registry refused access to the image, or does not have it.
        """
        host = "registry-1.docker.io" if self.uri.registry == "docker.io" else self.uri.registry
        scheme = "http" if self.plain_http else "https"
        address = f"{scheme}://{host}/v2/{self.uri.repository}/manifests/{self.uri.tag}"
        try:
            try:
                return self._head(address, "")
            except urllib.error.HTTPError as error:
                if error.code != 401:
                    raise
                return self._head(address, self._authorization(error.headers.get("WWW-Authenticate", "")))
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise ImageError(refusal(self.uri, has_credentials=self.credentials is not None)) from error
            if error.code == 404:
                raise ImageError(
                    f"the registry {self.uri.registry} has no image {self.uri.repository} with the tag "
                    f"'{self.uri.tag}': correct image_uri = '{self.uri.text}'"
                ) from error
            return ""
        except (OSError, ValueError):
            # the runtime may still reach it, through its own proxy or mirror
            return ""

    def _head(self, address: str, authorization: str) -> str:
        request = urllib.request.Request(address, method="HEAD", headers={"Accept": ", ".join(_MANIFESTS)})  # noqa: S310 - http only where the site says so
        if authorization:
            request.add_unredirected_header("Authorization", authorization)
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - the same request
            digest = answer.headers.get("Docker-Content-Digest", "")
        return digest if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) else ""

    def _authorization(self, challenge: str) -> str:
        kind, _space, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            return self.credentials.basic if self.credentials else ""
        schemes = ("https://", "http://") if self.plain_http else ("https://",)
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        query = urllib.parse.urlencode({name: fields[name] for name in ("service", "scope") if name in fields})
        if kind.lower() != "bearer" or not fields.get("realm", "").startswith(schemes):
            raise ValueError(f"the challenge '{challenge}' can't be answered")
        request = urllib.request.Request(f"{fields['realm']}?{query}")  # noqa: S310 - checked above
        if self.credentials:
            request.add_unredirected_header("Authorization", self.credentials.basic)
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - the same request
            body = json.load(answer)
        return f"Bearer {body.get('token') or body.get('access_token', '')}"


def refusal(uri: ImageUri, *, has_credentials: bool) -> str:
    """Return the message for a registry that refuses access to an image."""
    what = "with the credentials given" if has_credentials else "and no credentials were given"
    hint = " (NVIDIA's registry: the user name is $oauthtoken, the password your API key)" if _is_ngc(uri) else ""
    return (
        f"the registry {uri.registry} refused access to {uri.repository}, {what}. Log in with "
        f"'singularity registry login --username NAME docker://{uri.registry}', or set SINGULARITY_DOCKER_USERNAME and "
        f"SINGULARITY_DOCKER_PASSWORD{hint}"
    )


def _is_ngc(uri: ImageUri) -> bool:
    return uri.registry == "nvcr.io"
