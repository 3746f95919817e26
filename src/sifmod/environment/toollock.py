"""Locks of uv, poetry and pdm, as far as their projects' own dependencies go: without their groups and extras.

Of uv's, the packages that one Python needs become those of a pylock.toml, because it has their addresses. The other two
have file names and hashes: their packages are looked for at the indexes of pip, which takes no other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import Marker

from sifmod.environment.requirements import PDM, POETRY, UV, Requirements, requirements_of, toml_of
from sifmod.errors import SifmodError

UV_LOCK = "uv.lock"
# The group of a project's own dependencies, and what makes a file that is read from a lock that can't be.
_INDEXED = {"poetry.lock": ("main", POETRY), "pdm.lock": ("default", PDM)}
NAMES = (UV_LOCK, *_INDEXED)


def read_indexed_lock(path: Path) -> Requirements:
    """Return the packages of a lock of poetry or pdm, each in its one version with the hashes of its files.

    Raises:
        SifmodError: it can't be read, is of an old version, or has a package that no index has.
    """
    group, remedy = _INDEXED[path.name]
    try:
        return requirements_of(path, list(_indexed(path, group, remedy)))
    except (KeyError, TypeError, AttributeError) as error:
        raise _unknown(path, remedy) from error


def _indexed(path: Path, group: str, remedy: str) -> Iterator[str]:
    for one in toml_of(path)["package"]:
        groups = one.get("groups")
        if groups is None:  # it does not say for whom a package is, as those of poetry before 2
            raise _unknown(path, remedy)
        # in a list, pdm has an entry more for extras; poetry has a table of those that a package offers
        if group not in groups or one.get("optional") or isinstance(one.get("extras"), list):
            continue
        # an index that the project names is no other place: whichever pip asks, it takes these files or none
        source = one.get("source", {}).get("type", "legacy")
        if source != "legacy" or not {"git", "path", "url"}.isdisjoint(one):
            raise SifmodError(
                f"'{path}' takes {one['name']} from a place of its own, which pip would not ask: write a file with "
                f"{remedy}"
            )
        marker = one.get("markers") or one.get("marker") or ""
        marker = marker.get(group, "") if isinstance(marker, Mapping) else marker
        hashes = "".join(f" --hash={file['hash']}" for file in one["files"])
        yield f"{one['name']}=={one['version']}{f' ; {marker}' if marker else ''}{hashes}"


def of_uv(path: Path, tables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a lock of uv has for one Python as tables of a pylock.toml; values are for its reader to check.

    Raises:
        SifmodError: it has no project, or a package that is not a file of an index.
        ValueError, TypeError, KeyError, AttributeError: it is not a lock of uv.
    """
    packages = tables["package"]
    roots = [one for one in packages if "." in (one["source"].get("editable"), one["source"].get("virtual"))]
    if len(roots) != 1:
        raise _unknown(path, UV)
    named: dict[str, dict[Any, Mapping[str, Any]]] = {}
    for one in packages:
        named.setdefault(one["name"], {}).setdefault(one.get("version"), one)
    wanted: list[tuple[Mapping[str, Any], str]] = [(roots[0], "")]
    seen: set[tuple[int, str]] = set()
    needed: dict[int, Mapping[str, Any]] = {}
    while wanted:
        package, extra = wanted.pop()
        if (id(package), extra) in seen:
            continue
        seen.add((id(package), extra))
        needed[id(package)] = package
        needs = package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
        for need in needs:
            if "marker" in need and not Marker(need["marker"]).evaluate(dict(environment)):
                continue
            # where a lock has several versions of one package, who needs it says which
            versions = named[need["name"]]
            found = versions[need["version"]] if "version" in need else next(iter(versions.values()))
            wanted += [(found, one) for one in ("", *need.get("extra", []))]
    del needed[id(roots[0])]
    lock = {"lock-version": "1.0", "created-by": "uv", "packages": [_package(path, one) for one in needed.values()]}
    return {**lock, **({"requires-python": tables["requires-python"]} if "requires-python" in tables else {})}


def _package(path: Path, one: Mapping[str, Any]) -> dict[str, Any]:
    if not {"registry", "url"} & set(one["source"]):
        raise SifmodError(
            f"the lock '{path}' has {one['name']} as source code ({', '.join(one['source'])}): make a wheel with 'pip "
            "wheel --no-deps', and lock that"
        )
    package: dict[str, Any] = {"name": one["name"], "version": one["version"]}
    if one.get("wheels"):
        package["wheels"] = [_file(file, one["source"]) for file in one["wheels"]]
    elif one.get("sdist"):
        package["sdist"] = _file(one["sdist"], one["source"])
    return package


def _file(file: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    algorithm, _colon, digest = file.get("hash", "").partition(":")
    place = {key: file[key] for key in ("url", "path") if key in file} or {"url": source["url"]}
    return {**place, "hashes": {algorithm: digest}}


def _unknown(path: Path, remedy: str) -> SifmodError:
    return SifmodError(f"'{path}' can't be read here, as its format is another one: write a file with {remedy}")
