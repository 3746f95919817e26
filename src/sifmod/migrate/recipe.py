"""A recipe of SHPC, `container.yaml`, read into narrow types (SHPC's shpc/main/schemas.py has its keys)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from sifmod.errors import RecipeError
from sifmod.fetch.recipes import RecipeSource
from sifmod.text.digest import DIGEST
from sifmod.text.package import NAME
from sifmod.text.printable import short_line
from sifmod.text.suggest import perhaps
from sifmod.text.yaml import Node, read_yaml

KINDS = ("docker", "oras", "gh", "path")

_NO_RECIPE = "not a recipe"
_NO_DIGEST = "no digest"
# What SHPC lets the file of a tag replace (load_override_file in its shpc/main/container/config.py).
_OVERRIDABLE = ("aliases", "env", "features", "description")
# What cosign stores beside an image, under a tag of its own.
_OF_AN_IMAGE = re.compile(r"\.(?:sig|att|sbom)$")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_MOST_NAMED = 5


@dataclass(frozen=True)
class Alias:
    """A command that a recipe puts on the host: the command in the container, and options for it alone."""

    name: str
    command: str
    options: str = ""


@dataclass(frozen=True)
class Tool:
    """What SHPC makes a module of."""

    origin: str  # where this was read, as messages say it
    tag: str  # the version of SHPC's module
    path: str = ""  # the name of SHPC's module, without the version: a path such as `quay.io/biocontainers/samtools`
    image: Mapping[str, Any] = field(default_factory=dict)  # the parameters of an easyconfig that name the image
    aliases: tuple[Alias, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()  # names of what it needs of the host: gpu, home, x11
    scripts: tuple[str, ...] = ()  # names of its commands that are scripts of SHPC
    url: str = ""  # home page; empty if there is none
    description: str = ""  # what it is; empty if there is none


@dataclass(frozen=True)
class Recipe:
    """A recipe for one of its tags: the tool, as yet without path and image, and where its image is."""

    tool: Tool
    kind: str  # one of `KINDS`
    reference: str  # the repository in a registry, the repository on GitHub, or the file beside the recipe
    digest: str  # digest of the image; for `gh` the release, for `path` the SHA-256 of the file, or empty


def read_recipe_for(source: RecipeSource, *, tag: str = "") -> Recipe:
    """Return a recipe for a tag."""
    recipe = _Sections(source.origin, _mapping_of(source))
    kind = next((one for one in KINDS if recipe.text(one)), "")
    if not kind:
        raise recipe.refused(f"it names no image: it has none of {', '.join(KINDS)}")
    latest = recipe.texts("latest")
    tags = {**recipe.texts("tags"), **latest}
    chosen = _full_tag(tag, tags) or next(iter(latest), "")
    reference, digest = _reference(recipe, kind), _digest(recipe, kind, tags, chosen)
    override = recipe.texts("overrides").get(chosen)
    described = recipe
    if override is not None:
        other = source.other(override)
        replaced = {key: value for key, value in _mapping_of(other).items() if key in _OVERRIDABLE}
        described = _Sections(other.origin, {**recipe.sections, **replaced})
    tool = Tool(
        origin=source.origin,
        tag=chosen,
        aliases=tuple(_aliases(described)),
        env=tuple(described.texts("env").items()),
        features=tuple(name for name, value in described.texts("features").items() if value.lower() == "true"),
        scripts=tuple(recipe.texts("singularity_scripts")),
        url=recipe.text("url"),
        description=described.text("description"),
    )
    return Recipe(tool=tool, kind=kind, reference=reference, digest=digest)


def _mapping_of(source: RecipeSource) -> dict[str, Node]:
    try:
        document = read_yaml(source.text)
    except ValueError as error:
        raise RecipeError("not YAML", f"{source.origin} is not a recipe of SHPC: {error}") from error
    if not isinstance(document, dict):
        raise RecipeError(_NO_RECIPE, f"{source.origin} is not a recipe of SHPC: it is not a mapping at its top")
    return document


@dataclass(frozen=True)
class _Sections:
    """The sections of a recipe by key; messages name its origin."""

    origin: str
    sections: Mapping[str, Node]

    def refused(self, problem: str, reason: str = _NO_RECIPE) -> RecipeError:
        """Return the error for a recipe that can't be used."""
        return RecipeError(reason, f"{self.origin} can't be converted: {problem}")

    def section(self, key: str) -> Node:
        """Return a section; empty if there is none, or if it is null."""
        return _or_empty(self.sections.get(key, ""))

    def text(self, key: str) -> str:
        """Return a section that is a text; empty if there is none."""
        value = self.section(key)
        if not isinstance(value, str):
            raise self.refused(f"'{key}' is not a text")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Return a section that is a mapping of texts; empty if there is none."""
        value = self.section(key) or {}
        if not isinstance(value, dict):
            raise self.refused(f"'{key}' is not a mapping")
        items = {name: _or_empty(item) for name, item in value.items()}
        found = {name: item for name, item in items.items() if isinstance(item, str)}
        if len(found) != len(value):
            raise self.refused(f"'{key}' has values that are not texts")
        return found


def _or_empty(node: Node) -> Node:
    """Return a node, or an empty text for one that YAML takes for nothing."""
    return "" if node in ("null", "~") else node


def _full_tag(tag: str, tags: Mapping[str, str]) -> str:
    """Return the tag that was asked for; the version alone is enough if only one build of it is there."""
    builds = [one for one in tags if one.startswith(f"{tag}--")] if tag and tag not in tags else []
    return builds[0] if len(builds) == 1 else tag


def _reference(recipe: _Sections, kind: str) -> str:
    reference = recipe.text(kind)
    if kind == "path":
        # beside the recipe, under a name that an installation can have
        usable = "/" not in reference and not reference.startswith((".", "-"))
    elif kind == "gh":
        usable = bool(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_-][A-Za-z0-9_.-]*", reference))
    else:
        usable = bool(_REFERENCE.fullmatch(reference))
    if not usable:
        raise recipe.refused(f"{kind}: {_short(reference)} does not name an image")
    return reference


def _digest(recipe: _Sections, kind: str, tags: Mapping[str, str], tag: str) -> str:
    if not tag:
        raise recipe.refused("it has no latest tag: name one with --tag", _NO_DIGEST)
    if tag not in tags:
        known = ", ".join(list(tags)[-_MOST_NAMED:])
        raise recipe.refused(f"it has no tag {_short(tag)}{perhaps(tag, tags)}; among its tags are {known}", "no tag")
    pattern = NAME if kind == "gh" else DIGEST

    def is_attached(one: str) -> bool:
        return kind in ("docker", "oras") and bool(_OF_AN_IMAGE.search(one))

    def is_usable(one: str, digest: str) -> bool:
        return bool(_TAG.fullmatch(one) and pattern.fullmatch(digest)) and not is_attached(one)

    if is_usable(tag, tags[tag]):
        return tags[tag]
    if _TAG.fullmatch(tag) and kind == "path":
        return ""
    if is_attached(tag):
        what = "it names a signature, an attestation or an SBOM"
    elif not _TAG.fullmatch(tag):
        what = f"the tag {_short(tag)} is not one"
    else:
        what = f"its digest is {_short(tags[tag])}"
    usable = [one for one, digest in tags.items() if is_usable(one, digest)]
    remedy = f": choose another with --tag, such as {usable[-1]}" if usable else ""
    raise recipe.refused(f"the tag {_short(tag)} has no usable digest, because {what}{remedy}", _NO_DIGEST)


def _aliases(recipe: _Sections) -> list[Alias]:
    """Return the aliases, which are a mapping or a list."""
    section = recipe.section("aliases")
    if not isinstance(section, list):
        return [Alias(name, command) for name, command in recipe.texts("aliases").items()]
    found = {}
    for item in section:
        name, command, options = (
            _or_empty(item.get(key, "")) if isinstance(item, dict) else None
            for key in ("name", "command", "singularity_options")
        )
        if not (isinstance(name, str) and isinstance(command, str) and isinstance(options, str) and name):
            raise recipe.refused("an item of 'aliases' is not a mapping of a name and a command")
        found[name] = Alias(name, command, options)
    return list(found.values())


def _short(text: str) -> str:
    return f"'{short_line(text, 60)}'"


def release_address(recipe: Recipe) -> str:
    """Return the address of an image in a release on GitHub (_pull_github in SHPC's singularity.py)."""
    file_name = f"{recipe.reference.replace('/', '-')}.{recipe.tool.tag}.sif"
    return f"https://github.com/{recipe.reference}/releases/download/{recipe.digest}/{file_name}"


def module_path(recipe: Recipe) -> Optional[str]:
    """Return the name that SHPC gives to the module, without the version; None if its folder tells it."""
    return None if recipe.kind == "path" else recipe.reference.replace(":", "-")
