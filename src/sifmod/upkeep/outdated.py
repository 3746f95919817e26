"""Whether the images of installed modules are still those of their tags, and which newer tags there are."""

from __future__ import annotations

import concurrent.futures
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sifmod.errors import ImageError
from sifmod.fetch.credentials import find_all_credentials
from sifmod.fetch.registry import Registry, Tags
from sifmod.fetch.uri import ImageUri
from sifmod.host.parallel import called_in_threads
from sifmod.installed.installation import Installation
from sifmod.site.settings import Site
from sifmod.text import quoting
from sifmod.text.version import natural_order

# What differs between builds of a version and has no order: a hash, such as `h91753b0` of biocontainers.
_HASH = re.compile(r"(?<![A-Za-z0-9])(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z]?[0-9a-f]{7,40}(?![A-Za-z0-9])")
_MOST_SECONDS = 60  # for all registries together
_LONG_NUMBER = 5  # digits of a date or of a number of a build, which is another form than a version


@dataclass(frozen=True)
class Standing:
    """How the image of a module stands in its registry."""

    module: str
    uri: str  # where the image is from, as the install recorded it
    tag: str = ""  # its tag there; empty if that is not known
    digest: str = ""  # the installed digest, as `sha256:...`; empty if the registry named none
    now: str = ""  # the digest of the tag now; empty if that is not known
    newer: tuple[str, ...] = ()  # newer tags of the same form, the newest first
    following: str = ""  # the command to type next; empty if there is nothing to do
    problem: str = ""  # what could not be found out, and why

    @property
    def has_moved(self) -> bool:
        """Whether the tag is another image now."""
        return bool(self.digest and self.now and self.digest != self.now)

    @property
    def is_outdated(self) -> bool:
        """Whether the registry has something else for this module."""
        return self.has_moved or bool(self.newer)


def standings(items: Sequence[Installation], site: Site) -> list[Standing]:
    """Return the standing of each module whose image is from a registry, in the order of the modules.

    Several repositories are asked at once, each for its tags once. A registry that can't be reached is asked no more.
    """
    by_repository: dict[tuple[str, str], list[tuple[Installation, ImageUri]]] = {}
    for item in items:
        with suppress(ValueError):  # the name of a definition file, or nothing
            uri = ImageUri.parse(item.manifest.image_origin)
            if uri.registry:
                by_repository.setdefault((uri.registry, uri.repository), []).append((item, uri))
    away: set[str] = set()
    groups = list(by_repository.values())
    ends = time.monotonic() + _MOST_SECONDS
    found: dict[str, Standing] = {}
    with called_in_threads(lambda group: list(_of_repository(group, site, away)), groups) as results:
        for group, result in zip(groups, results):
            try:
                answers = result.result(max(0, ends - time.monotonic()))
            except concurrent.futures.TimeoutError:  # the thread ends with the process
                late = f"no whole answer of the registry {group[0][1].registry} in {_MOST_SECONDS} seconds"
                answers = [_unknown(item, f"{late}: ask again later") for item, _uri in group]
            found.update((one.module, one) for one in answers)
    return [found[item.full_module] for item in items if item.full_module in found]


def _of_repository(group: Sequence[tuple[Installation, ImageUri]], site: Site, away: set[str]) -> Iterator[Standing]:
    uri = group[0][1]
    unreachable = (
        f"the registry {uri.registry} can't be reached from here, or lists no tags: ask again later, or on another node"
    )
    if uri.registry in away:
        yield from (_unknown(item, unreachable) for item, _uri in group)
        return
    # who has installed a module may have named any registry
    credentials = find_all_credentials([uri.registry], site).get(uri.registry)
    registry = Registry(uri, credentials, site, written=f"the module {group[0][0].module}")
    try:
        tags = registry.tags()
    except ImageError as error:
        yield from (_unknown(item, str(error)) for item, _uri in group)
        return
    if tags is None:
        away.add(uri.registry)
        yield from (_unknown(item, unreachable) for item, _uri in group)
        return
    now: dict[str, str] = {}
    for item, one in group:
        yield _standing(item, one, tags, registry, now)


def _unknown(item: Installation, problem: str) -> Standing:
    return Standing(item.full_module, item.manifest.image_origin, digest=item.manifest.image_digest, problem=problem)


def _standing(item: Installation, uri: ImageUri, tags: Tags, registry: Registry, now: dict[str, str]) -> Standing:
    manifest, problem = item.manifest, tags.missing
    tag = (uri.named_tag if uri.digest else uri.tag) or tag_of_version(item.version, tags.names)
    if not tag:
        return replace(_unknown(item, problem), problem=problem or "no tag of the registry begins with its version")
    if tag not in now:
        asked = ImageUri.parse(f"{uri.scheme}://{uri.registry}/{uri.repository}:{tag}")
        try:
            now[tag] = replace(registry, uri=asked).digest()
        except ImageError as error:
            now[tag], problem = "", str(error)
    newer = newer_tags(tag, tags.names)
    standing = Standing(item.full_module, uri.text, tag, manifest.image_digest, now[tag], newer, problem=problem)
    return replace(standing, following=_next(item, uri, standing))


def _next(item: Installation, uri: ImageUri, standing: Standing) -> str:
    """Return the command that writes the easyconfig of the newest tag, or that pulls the tag again."""
    if not standing.is_outdated:
        return ""
    kept = min((item.root / "easybuild").glob("*.eb"), default=None)
    if not standing.newer and not uri.digest and kept:
        return f"eb --rebuild --force-download=sources {quoting.shell(kept)}"
    newest = f"{uri.scheme}://{uri.registry}/{uri.repository}:{(*standing.newer, standing.tag)[0]}"
    like = f" --like {quoting.shell(kept)}" if kept else ""
    return f"sifmod new {quoting.shell(newest)}{like}"


def tag_of_version(version: str, tags: Iterable[str]) -> str:
    """Return the tag of a module whose image is named by its digest alone; empty if none has its version.

    It is the version, or else the last tag that begins with it: `1.22--h96c455f_0` for `1.22-singularity`.
    """
    found: list[tuple[int, str]] = []
    for tag in tags:
        for begin in (version, version.partition("-")[0]):
            if begin and re.match(rf"v?{re.escape(begin)}(?![0-9A-Za-z]|\.[0-9])", tag):
                found.append((len(begin), tag))
                break
    exact = [tag for _length, tag in found if tag.lstrip("v") in (version, version.partition("-")[0])]
    return max(exact or [tag for _length, tag in found], key=_order, default="")


def newer_tags(tag: str, tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of the same form with a higher version, the newest first: `25.10-py3` for `24.03-py3`."""
    form, order = _form(tag), _order(tag)
    newer = [one for one in dict.fromkeys(tags) if _form(one) == form and _order(one) > order]
    return tuple(sorted(newer, key=_order, reverse=True)) if any(mark.isdigit() for mark in tag) else ()


def _form(tag: str) -> str:
    """Return a tag with a mark for each number; two tags of one form are versions of one thing."""

    def mark(number: re.Match[str]) -> str:
        return "#" if len(number[0]) < _LONG_NUMBER else f"#{len(number[0])}"

    return re.sub(r"[0-9]+", mark, _HASH.sub("@", tag))


def _order(tag: str) -> tuple[tuple[int, int, str], ...]:
    return natural_order(_HASH.sub("@", tag))
