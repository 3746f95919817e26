"""Where the recipes of SHPC come from: a file, or a checkout of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.errors import InstallError, RecipeError
from sifmod.host.files import chosen, content_below, content_of, inside, walk
from sifmod.text.suggest import perhaps

RECIPE = "container.yaml"

_LARGEST = 1024 * 1024  # bytes of a recipe; the largest of SHPC's registry, with 605 aliases, has less than a tenth
_MOST_NAMED = 10


@dataclass(frozen=True)
class RecipeSource:
    """The text of a recipe, in YAML, and the folder of the files that it names."""

    origin: str
    text: str
    folder: Path

    def other(self, name: str) -> RecipeSource:
        """Return a file that the recipe names, by its path from the folder of the recipe, which it must not leave."""
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


def find_recipe(registry: Path, name: str) -> RecipeSource:
    """Return a recipe of the checkout of a registry, by its path there, or by the end of it if no other recipe ends so.

    Raises:
        RecipeError: there is no such recipe, or there are several.
    """
    files = {str(path.parent.relative_to(registry)): path for path in recipe_files(registry)}
    return read_recipe(files[_chosen(name, files, registry)])


def _chosen(name: str, known: Mapping[str, object], registry: Path) -> str:
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
