"""The lock of uv as a pylock.toml, as far as a project's own dependencies go: without its groups and extras."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.markers import Marker

from sifmod.environment.requirements import UV
from sifmod.errors import SifmodError

UV_LOCK = "uv.lock"


def of_uv(path: Path, tables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a lock of uv has for one Python as tables of a pylock.toml; values are for its reader to check.

    Raises:
        SifmodError: it has no project, or a package that is not a file of an index.
        ValueError, TypeError, KeyError, AttributeError: it is not a lock of uv.
    """
    packages = tables["package"]
    roots = [one for one in packages if "." in (one["source"].get("editable"), one["source"].get("virtual"))]
    if len(roots) != 1:
        raise SifmodError(f"'{path}' can't be read here, as its format is another one: write a file with {UV}")
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
