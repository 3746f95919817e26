"""A registry's answers about a repository: the digest of a tag, and its tags (OCI distribution specification)."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Optional, TypeVar

from sifmod.errors import ImageError
from sifmod.fetch.connection import answer_to
from sifmod.fetch.credentials import Credentials, kept_back
from sifmod.fetch.uri import DOCKER_HUB, DOCKER_HUB_REGISTRY, ImageUri
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.digest import DIGEST

_Answer = TypeVar("_Answer")

_LONGEST_ANSWER = 1024 * 1024  # bytes of a token; they have a few thousand
# Limits of a list of tags: bytes of a page, pages, tags, and seconds. The longest of Docker Hub have 10,000.
_LONGEST_PAGE = 4 * 1024 * 1024
_MOST_PAGES = 100
_MOST_TAGS = 100_000
_ALL_PAGES = 60
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# The next page, as registries name it (RFC 8288): only its query is used, so that no registry leads elsewhere.
_NEXT = re.compile(r'<[^<>?]*\?([!-=?-~]{1,2000})>\s*;\s*rel="?next"?')

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)

# A parameter of a challenge that names a realm, with quotes or without (RFC 9110, "Authentication Parameters").
_REALM = re.compile(r'\brealm\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))', re.IGNORECASE)
# An address that every parser of URLs takes apart in the same way.
_SERVICE = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[!-~]*)?")

# Second-level domains that countries give names under: example.co.uk is one organisation, co.uk is not.
_OF_COUNTRIES = re.compile(r"(ac|co|com|edu|gov|go|gob|gouv|gv|mil|net|ne|nom|or|org)\.[a-z]{2}")


@dataclass(frozen=True)
class Tags:
    """The tags of a repository."""

    names: tuple[str, ...]
    missing: str = ""  # why these are not all of them; empty if they are


@dataclass(frozen=True)
class Registry:
    """One registry and how to access it; `written` is the URI as the user has written it, for a message."""

    uri: ImageUri
    credentials: Optional[Credentials]
    site: Site
    written: str = ""
    # the login that the registry took: it is for the whole repository, and `dataclasses.replace` keeps it
    granted: list[str] = field(default_factory=list, repr=False, compare=False)

    def digest(self) -> str:
        """Return the digest of the image, as `sha256:...`; empty if the registry can't be reached from here.

        Raises:
            ImageError: the registry refused access to the image, or does not have it; or it wants the password to be
                sent elsewhere.
        """
        reference = self.uri.digest or self.uri.tag
        what = f"image {self.uri.repository} with the {'digest' if self.uri.digest else 'tag'} '{reference}'"
        return self._told(f"manifests/{reference}", _digest_in, what=what, method="HEAD") or ""

    def tags(self) -> Optional[Tags]:
        """Return the tags of the repository; None if the registry can't be reached from here.

        Raises:
            ImageError: as `digest`.
        """
        names: dict[str, None] = {}
        query, seen, ends = "n=1000", {""}, time.monotonic() + _ALL_PAGES
        for _page in range(_MOST_PAGES):
            what = f"repository {self.uri.repository}"
            page = self._told(f"tags/list?{query}", _page_of, what=what, method="GET")
            if page is None:
                return Tags(tuple(names), "the registry ended its list early") if names else None
            names.update(dict.fromkeys(page[0]))
            query = page[1]
            if query in seen:
                return Tags(tuple(names), page[2])
            seen.add(query)
            if time.monotonic() > ends or len(names) > _MOST_TAGS:
                break
        return Tags(tuple(names), f"the registry's list is too long: only the first {len(names)} tags were read")

    def _told(
        self, path: str, read: Callable[[http.client.HTTPResponse], _Answer], *, what: str, method: str
    ) -> Optional[_Answer]:
        """Return what the registry answers about its repository; None if it can't be reached from here."""
        if self.credentials and not self.granted:
            check_login(self.uri.registry, self.site)
        address = f"{_base(self.uri.registry, self.site)}{self.uri.repository}/{path}"
        try:
            try:
                return self._ask(address, read, method)
            except urllib.error.HTTPError as error:
                if error.code != 401:
                    raise
                self.granted[:] = [self._authorization(error.headers.get("WWW-Authenticate", ""))]
                return self._ask(address, read, method)
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise ImageError(refusal(self.uri, self.site, self.credentials)) from error
            if error.code == 404:
                written = self.written or f"image_uri = '{self.uri.text}'"
                raise ImageError(f"the registry {self.uri.registry} has no {what}: correct {written}") from error
            return None
        except (OSError, ValueError, http.client.HTTPException, RecursionError):
            # the runtime may still reach it, through its own proxy or mirror
            return None

    def _ask(self, address: str, read: Callable[[http.client.HTTPResponse], _Answer], method: str) -> _Answer:
        request = urllib.request.Request(address, method=method, headers={"Accept": ", ".join(_MANIFESTS)})  # noqa: S310 - http only where the site says so
        if self.granted and self.granted[0]:
            request.add_unredirected_header("Authorization", self.granted[0])
        with answer_to(request) as answer:
            return read(answer)

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
            _check_service(fields["realm"], self.uri.registry, self.site)
        elif realm.scheme == "http" and realm.netloc not in self.site.insecure_registries:
            raise ValueError(f"the token service '{realm.netloc}' speaks plain HTTP")
        request = urllib.request.Request(f"{fields['realm']}?{query}")  # noqa: S310 - checked above
        if self.credentials:
            request.add_unredirected_header("Authorization", self.credentials.basic)
        with answer_to(request) as answer:
            body = json.loads(answer.read(_LONGEST_ANSWER))
        token = (body.get("token") or body.get("access_token")) if isinstance(body, dict) else None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise ValueError("the token service's answer has no token")
        return f"Bearer {token}"


def _digest_in(answer: http.client.HTTPResponse) -> str:
    digest = answer.headers.get("Docker-Content-Digest", "")
    return digest if DIGEST.fullmatch(digest) else ""


def _page_of(answer: http.client.HTTPResponse) -> tuple[list[str], str, str]:
    """Return the tags of a page, the query of the next one, or '', and why tags of this one are missing."""
    body = answer.read(_LONGEST_PAGE + 1)
    if len(body) > _LONGEST_PAGE:
        return [], "", f"the registry's list is longer than {_LONGEST_PAGE >> 20} MiB, and was not read"
    page = json.loads(body)
    found = page.get("tags") if isinstance(page, dict) else None
    if found is not None and not isinstance(found, list):
        raise ValueError("the list of tags is not one")
    following = _NEXT.search(answer.headers.get("Link", ""))
    names = [name for name in found or () if isinstance(name, str) and _TAG.fullmatch(name)]
    return names, following[1] if following else "", ""


def check_login(registry: str, site: Site) -> None:
    """Refuse a registry that would make the runtime send a password elsewhere.

    Runtimes ask for `/v2/` first, and obey all that the answer says, also for images that need no login
    (go-containerregistry, `transport.ping`). A registry that can't be connected to from here is left to the runtime,
    which may have a proxy of its own.
    """
    try:
        with answer_to(urllib.request.Request(_base(registry, site))):  # noqa: S310 - http only where the site says so
            return
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise ImageError(
                f"the registry {registry} does not say how to log in, but answers with the status {error.code}: the "
                "password was not sent. Try again later, or correct the name of the registry"
            ) from error
        challenges = error.headers.get_all("WWW-Authenticate") or [""]
    except urllib.error.URLError:
        return
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ImageError(
            f"the registry {registry} does not answer as a registry does ({error!r}): the password was not sent. Try "
            "again later, or correct the name of the registry"
        ) from error
    for challenge in challenges:
        realms = [re.sub(r"\\(.)", r"\1", quoted) or bare for quoted, bare in _REALM.findall(challenge)]
        # without an address, Basic is a login at the registry itself
        services = [realm for realm in realms if "/" in realm or not challenge.lower().startswith("basic")]
        if not realms or (services and "bearer" not in challenge.lower()):
            raise ImageError(
                f"the registry {registry} wants the password in a way that is not known, {challenge!r}: it was not sent"
            )
        for service in services:
            _check_service(service, registry, site)


def _base(registry: str, site: Site) -> str:
    host = DOCKER_HUB_REGISTRY if registry == DOCKER_HUB else registry
    return f"{'http' if registry in site.insecure_registries else 'https'}://{host}/v2/"


def _check_service(realm: str, registry: str, site: Site) -> None:
    """Refuse to send a password in plain HTTP, or to a service on another domain than the registry's."""
    parts = urllib.parse.urlsplit(realm) if _SERVICE.fullmatch(realm) else None
    if parts is None:
        raise ImageError(
            f"the registry {registry} wants the password to be sent to {realm!r}, which is not the address of a token "
            "service: it was not sent"
        )
    if parts.scheme == "http" and parts.netloc not in site.insecure_registries:
        raise ImageError(
            f"the registry {registry} wants the password to be sent to {parts.netloc!r} in plain HTTP: it was not "
            "sent. If that is wanted, add it to 'insecure_registries' in the site file"
        )
    allowed = parts.netloc in site.token_services or parts.hostname in site.token_services
    if allowed or _domain(parts.netloc) == _domain(registry):
        return
    raise ImageError(
        f"the registry {registry} wants the password to be sent to {parts.netloc!r}, which is on another domain: it "
        "was not sent. If that is its token service, add it to 'token_services' in the site file or to "
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
    kept = "" if credentials else kept_back(uri.registry)
    return (
        f"the registry {uri.registry} refused access to {uri.repository}, {what}: {first}log in with "
        f"{runtime} registry login --username {name} docker://{uri.registry}{hint}"
        + (f"; {kept}" if kept else ", or set SINGULARITY_DOCKER_USERNAME and SINGULARITY_DOCKER_PASSWORD")
    )
