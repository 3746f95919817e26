"""`sifmod list`: list the installed containers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Optional

import click

from sifmod.commands.options import json_option, prefix_option
from sifmod.commands.output import echo, echo_error, echo_json, echo_table
from sifmod.eb.available import newer_easyconfigs
from sifmod.eb.space import software_space
from sifmod.host.owners import owner_of
from sifmod.installed.base import built_on
from sifmod.installed.installation import Installation, find_installations
from sifmod.installed.modulepath import known_installations
from sifmod.site.settings import load_site
from sifmod.text.size import counted, size_text
from sifmod.usersoftware.layers import lacks_layers
from sifmod.usersoftware.state import DIRECTORY, PACKED, UserSoftware


@click.command("list")
@prefix_option
@click.option("--fast", is_flag=True, help="Skip the size of user software, which needs a directory walk.")
@click.option("--by-size", is_flag=True, help="The largest first, with what all take together.")
@json_option
def list_installed(prefix: Optional[Path], fast: bool, by_size: bool, as_json: bool) -> None:
    """List the installed container modules, and, without --prefix, the others of MODULEPATH.

    Shows image and user software of each module, whether it is loaded in this shell, and whether EasyBuild's robot path
    has an easyconfig of a newer version.

    Exit status: 0, or 1 if the manifest of an installation can't be read, or its user software leads elsewhere.

    \b
    Examples:
      sifmod list
      sifmod list --prefix /project/software --fast
      sifmod list --by-size
      sifmod list --json
    """
    space = software_space(prefix)
    found = find_installations(space)
    site = load_site()
    facts = [describe(item, fast=fast) for item in found.installations]
    astray = [sentence for fact in facts for sentence in fact["user_software"]["links_out"]]
    status = 1 if found.damaged or astray else 0
    own = {os.path.realpath(item.root) for item in found.installations}
    known = known_installations(space, {} if prefix else os.environ, site)
    others = [item for item in known if not prefix and os.path.realpath(item.root) not in own]
    others.sort(key=lambda item: item.full_module)
    for one, fact in zip(found.installations, facts):
        fact["built_on_by"] = [_named(above) for above in built_on(one, known)]
    if by_size:
        facts.sort(key=_size, reverse=True)
    if as_json:
        damaged = [{"root": str(item.root), "problem": item.problem} for item in found.damaged]
        more = {"damaged": damaged, "others": [_named(one) for one in others]}
        echo_json({"software": str(space.software), "installations": facts, **more})
        sys.exit(status)
    for sentence in astray:
        echo_error(f"sifmod: {sentence}")
    for item in found.damaged:
        echo_error(f"sifmod: {item.problem}")
    if facts:
        echo_table(("MODULE", "IMAGE", "USER SOFTWARE", "LOADED", "NEWER EASYCONFIG"), list(map(_row, facts)))
        for fact in facts:
            above = [f"{one['module']} ({one['owner']})" for one in fact["built_on_by"]]
            if above:
                echo(f"{', '.join(above)} {'builds' if len(above) == 1 else 'build'} on {fact['module']}")
        if by_size:
            echo(f"{counted(len(facts), 'installation')}: {size_text(sum(map(_size, facts)))}")
    else:
        echo(f"no container modules in {space.software}")
    if others:
        echo()
        echo_table(("OTHER MODULE", "OWNER", "DIRECTORY"), [[*_named(one).values()] for one in others])
    sys.exit(status)


def _row(fact: dict[str, Any]) -> tuple[str, ...]:
    newer = Path(fact["newer_easyconfigs"][0]).name if fact["newer_easyconfigs"] else "-"
    image = image_size_text(fact["image"]) + ("" if fact["image"]["is_there"] else " (gone)")
    if fact["image"]["old"]:
        image += f" (+ old {size_text(sum(old['size'] for old in fact['image']['old']))})"
    loaded = "loaded" if fact["loaded"] else "-"
    return fact["module"], image, user_software_text(fact["user_software"]), loaded, newer


def _named(item: Installation) -> dict[str, str]:
    return {"module": item.module, "owner": owner_of(item.root), "root": str(item.root)}


def _size(fact: dict[str, Any]) -> int:
    """Return the bytes of an installation: images that are its own, user software in use and its layers."""
    image, software = fact["image"], fact["user_software"]
    own = image["size"] if image["in_installation"] and image["is_there"] else 0
    enroot = image["for_enroot"]["size"] if image["for_enroot"] and image["for_enroot"]["is_there"] else 0
    layers = sum(one["size"] or 0 for one in software["layers"] if one["path"].startswith(f"{fact['root']}/"))
    return int(own + enroot + sum(one["size"] for one in image["old"]) + (software["size"] or 0) + layers)


def describe(item: Installation, *, fast: bool) -> dict[str, Any]:
    """Return the facts about an installation, for `--json` and for tables."""
    manifest = item.manifest
    return {
        "module": item.module,
        "root": str(item.root),
        "image": {
            "path": str(item.image),
            "size": manifest.image_size,
            "is_there": item.has_image,
            "in_installation": manifest.image in manifest.files,
            "sha256": manifest.image_sha256,
            "source": manifest.image_source,
            "origin": manifest.image_origin,
            "digest": manifest.image_digest,
            "for_enroot": _for_enroot(item),
            "old": [{"path": str(path), "size": path.stat().st_size} for path in item.old_images],
        },
        "python_version": manifest.python_version,
        "venv": manifest.venv,
        "features": list(manifest.features),
        "user_software": {**_user_software(item.user_software, fast=fast), **_layers(item)},
        "loaded": item.is_loaded(),
        "module_files": [str(path) for path in item.module_files],
        "newer_easyconfigs": [str(path) for path in newer_easyconfigs(item.name, item.version)],
        "tools": dict(manifest.tools),
    }


def _for_enroot(item: Installation) -> Optional[dict[str, Any]]:
    manifest, path = item.manifest, item.squashfs
    if path is None:
        return None
    return {
        "path": str(path),
        "size": manifest.squashfs_size,
        "is_there": path.is_file(),
        "sha256": manifest.squashfs_sha256,
    }


def image_size_text(image: dict[str, Any]) -> str:
    """Return the size of an image; one that lies unpacked was not measured."""
    return size_text(image["size"]) if image["size"] else "a directory"


def user_software_text(facts: dict[str, Any]) -> str:
    """Return the state of user software as one line."""
    if facts["state"] not in (DIRECTORY, PACKED):
        return "-" if facts["state"] == "none" else str(facts["state"])
    size = f", {size_text(facts['size'])}" if facts["size"] is not None else ""
    below = f", on {counted(len(facts['layers']), 'layer')}" if facts["layers"] else ""
    lacking = any(layer["problem"] for layer in facts["layers"]) or facts["lacks_layers"]
    lacking_text = ", layers are missing" if lacking else ""
    return f"{facts['state']}, {counted(len(facts['packages']), 'package')}{size}{below}{lacking_text}"


def _layers(item: Installation) -> dict[str, Any]:
    below = [
        {
            "path": str(layer.path),
            "place": layer.place,
            "size": layer.size,
            "problem": layer.problem,
            "packages": list(layer.packages),
        }
        for layer in item.layers
    ]
    return {"layers": below, "lacks_layers": lacks_layers(item.root)}


def _user_software(state: UserSoftware, *, fast: bool) -> dict[str, Any]:
    return {
        "state": state.state,
        "packages": list(state.packages),
        "size": None if fast and state.state == DIRECTORY else state.size,
        "directory": str(state.directory) if state.has_directory else None,
        "packed": str(state.packed) if state.has_packed else None,
        "packed_problem": state.packed_problem,
        "links_out": list(state.links_out),
    }
