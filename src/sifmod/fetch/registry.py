"""Resolving a tag to its digest in a registry (OCI distribution specification, "Pulling manifests")."""

from __future__ import annotations

import http.client
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
from sifmod.site.settings import Site
from sifmod.text import quoting

_TIMEOUT = 20  # seconds; a registry that takes longer for a header counts as unreachable
_LONGEST_ANSWER = 1024 * 1024  # bytes of a token; they have a few thousand

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)

# Second-level domains that countries give names under: example.co.uk is one organisation, co.uk is not.
_OF_COUNTRIES = re.compile(r"(ac|co|com|edu|gov|go|gob|gouv|gv|mil|net|ne|nom|or|org)\.[a-z]{2}")


@dataclass(frozen=True)
class Registry:
    """One registry and how to access it.

    Attributes:
        uri: the requested image.
        credentials: user name and password; None if there are none.
        site: which registries and token services it allows.
    """

    uri: ImageUri
    credentials: Optional[Credentials]
    site: Site

    def digest(self) -> str:
        """Return the digest of the image, as `sha256:...`; empty if the registry can't be reached from here.

        Raises:
            ImageError: the registry refused access to the image, or does not have it; or it wants the password to be
                sent elsewhere.
        """
        host = "registry-1.docker.io" if self.uri.registry == "docker.io" else self.uri.registry
        scheme = "http" if self.uri.registry in self.site.insecure_registries else "https"
        reference = self.uri.digest or self.uri.tag
        address = f"{scheme}://{host}/v2/{self.uri.repository}/manifests/{reference}"
        try:
            try:
                return self._head(address, "")
            except urllib.error.HTTPError as error:
                if error.code != 401:
                    raise
                return self._head(address, self._authorization(error.headers.get("WWW-Authenticate", "")))
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise ImageError(refusal(self.uri, self.site, self.credentials)) from error
            if error.code == 404:
                what = "digest" if self.uri.digest else "tag"
                raise ImageError(
                    f"the registry {self.uri.registry} has no image {self.uri.repository} with the {what} "
                    f"'{reference}': correct image_uri = '{self.uri.text}'"
                ) from error
            return ""
        except (OSError, ValueError, http.client.HTTPException, RecursionError):
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
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        query = urllib.parse.urlencode({name: fields[name] for name in ("service", "scope") if name in fields})
        realm = urllib.parse.urlsplit(fields.get("realm", ""))
        if kind.lower() != "bearer" or realm.scheme not in ("http", "https"):
            raise ValueError(f"the challenge '{challenge}' can't be answered")
        if self.credentials:
            self._check_service(realm)
        elif realm.scheme == "http" and realm.netloc not in self.site.insecure_registries:
            raise ValueError(f"the token service '{realm.netloc}' speaks plain HTTP")
        request = urllib.request.Request(f"{fields['realm']}?{query}")  # noqa: S310 - checked above
        if self.credentials:
            request.add_unredirected_header("Authorization", self.credentials.basic)
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - the same request
            body = json.loads(answer.read(_LONGEST_ANSWER))
        token = (body.get("token") or body.get("access_token")) if isinstance(body, dict) else None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise ValueError("the token service's answer has no token")
        return f"Bearer {token}"

    def _check_service(self, realm: urllib.parse.SplitResult) -> None:
        """Refuse to send a password in plain HTTP, or to a service on another domain than the registry's."""
        if realm.scheme == "http" and realm.netloc not in self.site.insecure_registries:
            raise ImageError(
                f"the registry {self.uri.registry} wants the password to be sent to {realm.netloc!r} in plain HTTP: it "
                "was not sent. If that is wanted, add it to 'insecure_registries' in the site file"
            )
        allowed = realm.netloc in self.site.token_services or realm.hostname in self.site.token_services
        if allowed or _domain(realm.netloc) == _domain(self.uri.registry):
            return
        raise ImageError(
            f"the registry {self.uri.registry} wants the password to be sent to {realm.netloc!r}, which is on another "
            "domain: it was not sent. If that is its token service, add it to 'token_services' in the site file or to "
            "SIFMOD_TOKEN_SERVICES"
        )


def _domain(location: str) -> str:
    """Return the domain that one organisation has registered, of a host, with a port or without; an address itself."""
    host = (urllib.parse.urlsplit(f"//{location}").hostname or "").rstrip(".")
    labels = host.split(".")
    if labels[-1].isdigit() or ":" in host:
        return host
    return ".".join(labels[-3:] if _OF_COUNTRIES.fullmatch(".".join(labels[-2:])) else labels[-2:])


def refusal(uri: ImageUri, site: Site, credentials: Optional[Credentials]) -> str:
    """Return the message for a registry that refuses access to an image."""
    what = f"with the credentials from {credentials.origin}" if credentials else "and no credentials were given"
    is_ngc = uri.registry == "nvcr.io"
    hint = " (for NVIDIA's registry the password is your API key)" if is_ngc else ""
    name = quoting.shell("$oauthtoken") if is_ngc else "NAME"
    first = "correct or unset these variables, or " if credentials and credentials.origin.startswith("the var") else ""
    runtime = site.runtime or "singularity"
    return (
        f"the registry {uri.registry} refused access to {uri.repository}, {what}: {first}log in with "
        f"{runtime} registry login --username {name} docker://{uri.registry}{hint}, or set SINGULARITY_DOCKER_USERNAME "
        "and SINGULARITY_DOCKER_PASSWORD"
    )
