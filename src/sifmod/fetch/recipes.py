"""Where the recipes of SHPC come from: a file, a checkout of a registry, or the index that a registry publishes."""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlsplit

from sifmod.errors import InstallError, RecipeError
from sifmod.fetch.connection import answer_to
from sifmod.host.files import chosen, content_below, content_of, inside, walk
from sifmod.site.settings import Site
from sifmod.text.suggest import perhaps

RECIPE = "container.yaml"

_INDEX = "library.json"
_LARGEST = 1024 * 1024  # bytes of a recipe; the largest of SHPC's registry, with 605 aliases, has less than a tenth
_LARGEST_INDEX = 256 * 1024 * 1024
# Where GitHub and GitLab publish the pages of a repository; SHPC looks for the index there (shpc/main/registry).
_PAGES = {"github.com": "github.io", "gitlab.com": "gitlab.io"}
_MOST_NAMED = 10


@dataclass(frozen=True)
class RecipeSource:
    """The text of a recipe, in YAML, and the folder of the files that it names; None for a recipe of an index."""

    origin: str
    text: str
    folder: Optional[Path] = None

    def other(self, name: str) -> RecipeSource:
        """Return a file that the recipe names, by its path from the folder of the recipe, which it must not leave."""
        if self.folder is None:
            raise RecipeError(
                "its overrides are in a file, which an index lacks",
                f"{self.origin} needs its file '{name}', which an index lacks: use a checkout of the registry",
            )
        try:
            return read_recipe(inside(self.folder, name), folder=self.folder)
        except InstallError as error:
            raise RecipeError(
                "a file that it names is outside its folder",
                f"{self.origin} can't be converted: its file '{name}' is not a path inside its own folder",
            ) from error


def read_recipe(path: Path, *, folder: Optional[Path] = None) -> RecipeSource:
    """Return the recipe in a file; in a folder of somebody else's if `folder` is given: no link may lead out of it."""
    try:
        content = content_below(folder, path.relative_to(folder)) if folder else content_of(path)
        if len(content) > _LARGEST:
            raise RecipeError("too large", f"'{path}' has more than {_LARGEST} bytes, so it is not a recipe of SHPC")
        return RecipeSource(f"'{path}'", content.decode(), (path if folder else chosen(path)).parent)
    except OSError as error:
        raise RecipeError("it can't be read", f"'{path}' can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError("not UTF-8", f"'{path}' is not a recipe of SHPC: it is not UTF-8") from error


def recipe_files(registry: Path) -> list[Path]:
    """Return the recipes in a checkout of a registry, sorted, without links to folders; RecipeError without any."""
    paths = []
    for folder, folders, files in walk(registry):
        folders.sort()
        if RECIPE in files:
            paths.append(Path(folder, RECIPE))
    if not paths:
        raise RecipeError(
            "no registry", f"'{registry}' has no {RECIPE} in any folder: name a checkout of a registry of SHPC"
        )
    return paths


def find_recipe(registry: str, name: str, site: Site) -> RecipeSource:
    """Return a recipe of a registry, by its path there, or by the end of it if no other recipe ends so.

    A registry is the folder of a checkout, or the URL of a repository on GitHub or GitLab, or of an index
    (library.json).

    Raises:
        RecipeError: there is no such recipe, there are several, or the registry can't be read.
    """
    if "://" not in registry:
        folder = Path(registry)
        files = {str(path.parent.relative_to(folder)): path for path in recipe_files(folder)}
        return read_recipe(files[_chosen(name, files, registry)])
    address = index_address(registry)
    index = _read_index(address, site)
    chosen = _chosen(name, index, registry)
    entry = index[chosen]
    config = entry.get("config") if isinstance(entry, dict) else None
    # JSON is YAML, so there is one reader
    return RecipeSource(f"'{chosen}' of {address}", json.dumps(config, ensure_ascii=False))


def _chosen(name: str, known: Mapping[str, object], registry: str) -> str:
    if name in known:
        return name
    matching = sorted(one for one in known if one.endswith(f"/{name}"))
    if len(matching) == 1:
        return matching[0]
    if not matching:
        near = perhaps(name, [*known, *(one.rpartition("/")[2] for one in known)])
        raise RecipeError("no such recipe", f"'{registry}' has no recipe '{name}'{near}")
    shown = ", ".join(matching[:_MOST_NAMED]) + (" ..." if len(matching) > _MOST_NAMED else "")
    raise RecipeError("several recipes", f"'{registry}' has {len(matching)} recipes '{name}': name one of {shown}")


def index_address(registry: str) -> str:
    """Return the address of the index of a registry."""
    parts = urlsplit(registry.rstrip("/"))
    owner, _, repository = parts.path.strip("/").partition("/")
    pages = _PAGES.get(parts.netloc)
    if pages and repository:
        return f"https://{owner}.{pages}/{re.sub(r'[.]git$', '', repository)}/{_INDEX}"
    return parts.geturl() if parts.path.endswith(".json") else f"{parts.geturl()}/{_INDEX}"


def _read_index(address: str, site: Site) -> Mapping[str, Any]:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.netloc in site.insecure_registries):
        raise RecipeError("no registry", f"'{address}' is not an address with https://, or of insecure_registries")
    try:
        with answer_to(urllib.request.Request(address)) as answer:  # noqa: S310 - http only where the site says so
            content = answer.read(_LARGEST_INDEX + 1)
        index = json.loads(content) if len(content) <= _LARGEST_INDEX else None
    except (OSError, ValueError, http.client.HTTPException, RecursionError) as error:
        raise RecipeError(
            "no registry",
            f"the index '{address}' can't be read: {error}. Name a checkout of the registry with --registry DIR",
        ) from error
    if not isinstance(index, dict):
        raise RecipeError("no registry", f"'{address}' is not the index of a registry of SHPC, which is a JSON object")
    return index
