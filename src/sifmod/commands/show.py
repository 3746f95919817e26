"""`sifmod show`: show everything about one installed container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

import click

from sifmod import names
from sifmod.commands.list import describe, image_size_text, user_software_text
from sifmod.commands.options import complete_modules, json_option, prefix_option
from sifmod.commands.output import echo_json, echo_table
from sifmod.doctor.examination import advisories_of, this_host
from sifmod.eb.space import software_space
from sifmod.host.features import feature_states
from sifmod.installed.modulepath import find_usable
from sifmod.site.settings import load_settings
from sifmod.text.size import size_text


@click.command()
@click.argument("module", shell_complete=complete_modules)
@prefix_option
@json_option
def show(module: str, prefix: Optional[Path], as_json: bool) -> None:
    """Show everything about one installed container.

    MODULE is the full name of a module, its name alone if one version is installed, or the path of an installation: the
    loaded one, one of your software space, or one of MODULEPATH.

    \b
    Examples:
      sifmod show Python/3.11-demo-singularity
      sifmod show $CONTAINERROOT --json
    """
    item = find_usable(software_space(prefix), module, {} if prefix else os.environ)
    settings = load_settings()
    facts = describe(item, fast=False)
    own = sorted(path.name for path in (item.root / "bin").glob("*"))
    aside = sorted(path.name for path in item.root.glob(f"{names.USER_SOFTWARE_DIRECTORY}-*"))
    easyconfigs = sorted(str(path) for path in (item.root / "easybuild").glob("*.eb"))
    facts.update(
        {
            "binds": item.binds,
            "commands": own,
            "set_aside": aside,
            "easyconfig": easyconfigs[0] if easyconfigs else None,
        }
    )
    facts["features"] = [
        {
            "name": state.feature.name,
            "help": state.feature.help,
            "in_use": state.feature.name in item.manifest.features,
            "problem": state.problem,
            "misfit": item.manifest.misfits.get(state.feature.name, ""),
        }
        for state in feature_states(settings.site)
    ]
    facts["advisories"] = [vars(one) for one in advisories_of(item, this_host(settings))]
    if as_json:
        echo_json(facts)
        return
    echo_table(("WHAT", "VALUE"), _rows(facts))


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    image, state = facts["image"], facts["user_software"]
    return [
        ("module", facts["module"] + (", loaded in this shell" if facts["loaded"] else "")),
        ("directory", facts["root"]),
        ("module files", "\n".join(facts["module_files"]) or "gone"),
        ("easyconfig", facts["easyconfig"] or "-"),
        ("newer easyconfigs", "\n".join(facts["newer_easyconfigs"]) or "-"),
        ("image", image["path"] + ("" if image["is_there"] else " (gone)")),
        ("  size", image_size_text(image)),
        (
            "  SHA-256",
            image["sha256"] or f"not recorded, because the image {'was linked' if image['size'] else 'lies unpacked'}",
        ),
        ("  from", image["origin"] or image["source"]),
        ("  digest", image["digest"] or "-"),
        *_rows_for_enroot(image["for_enroot"]),
        ("  old", "\n".join(f"{old['path']}, {size_text(old['size'])}" for old in image["old"]) or "-"),
        ("Python", facts["python_version"] or "-"),
        ("virtual environment", facts["venv"] or "-"),
        ("features", "\n".join(map(_feature_text, facts["features"])) or "-"),
        ("bind paths", "\n".join(facts["binds"]) or "-"),
        ("user software", user_software_text(state)),
        ("  packages", "\n".join(state["packages"]) or "-"),
        ("  directory", state["directory"] or "-"),
        (
            "  packed file",
            (state["packed"] or "-") + (f": {state['packed_problem']}" if state["packed_problem"] else ""),
        ),
        *((f"  {layer['place']}", _layer_text(layer)) for layer in state["layers"]),
        ("  set aside", "\n".join(facts["set_aside"]) or "-"),
        ("commands", " ".join(facts["commands"])),
        ("known problems", "\n".join(f"{one['topic']}: {one['what']}" for one in facts["advisories"]) or "-"),
        ("installed with", "\n".join(f"{name} {version}" for name, version in sorted(facts["tools"].items()))),
    ]


def _layer_text(facts: dict[str, Any]) -> str:
    """Return a layer of user software, and below it its packages."""
    problem = f": {facts['problem']}" if facts["problem"] else ""
    size = "directory" if facts["size"] is None else size_text(facts["size"])
    return "\n".join([f"{facts['path']}, {size}{problem}", *facts["packages"]])


def _rows_for_enroot(facts: Optional[dict[str, Any]]) -> list[tuple[str, str]]:
    if facts is None:
        return []
    place = facts["path"] + ("" if facts["is_there"] else " (gone)")
    return [("  for enroot", f"{place}, {size_text(facts['size'])}, SHA-256 {facts['sha256']}")]


def _feature_text(facts: dict[str, Any]) -> str:
    """Return the state of a feature of the site as one line."""
    if facts["misfit"]:
        return f"{facts['name']}: not for this image: {facts['misfit']}"
    use = "in use" if facts["in_use"] else f"not in use (SIFMOD_FEATURES={facts['name']} adds it)"
    return f"{facts['name']}: {use}" + (f"; not on this node, because {facts['problem']}" if facts["problem"] else "")
