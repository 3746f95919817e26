"""`sifmod on`: write an easyconfig for a module on top of another module."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sifmod.commands.options import complete_modules, json_option
from sifmod.commands.writing import force_option, output_option, place_of, write_proposal
from sifmod.easyconfig.onmodule import propose_on
from sifmod.easyconfig.text import easyconfig_text, read_easyconfig
from sifmod.eb.space import software_space
from sifmod.errors import SifmodError
from sifmod.installed.base import bases_of, find_base
from sifmod.site.settings import load_site


@click.command("on")
@click.argument("module", shell_complete=complete_modules)
@click.option("--name", required=True, help="Name of the new module.")
@click.option("--version", default="", help="Version of the new module (default: that of MODULE).")
@output_option
@force_option
@json_option
def on(module: str, name: str, version: str, output: str, force: bool, as_json: bool) -> None:
    """Write an easyconfig for a module on top of another one.

    The new module takes over the image, the settings and the user software of MODULE, such as a colleague's, and has
    nothing but user software of its own, on top. MODULE is one of MODULEPATH or of your software space, or the path of
    an installation.

    Exit status: 0; 1 if the output exists; 3 if there is no such module, or a value can't be used.

    \b
    Examples:
      sifmod on PyTorch/2.7.1 --name lab
      sifmod on /project/eb/software/PyTorch/2.7.1 --name lab --output ~/new
    """
    space = software_space()
    found = find_base(module, space, os.environ, ask_owner=load_site().ask_owner)
    bases_of(found, Path("/"))
    kept: Mapping[str, Any] = {}
    with contextlib.suppress(SifmodError):  # then it has general words
        kept = read_easyconfig(found.root / "easybuild" / f"{found.name}-{found.version}.eb")[0]
    first = tuple(str(kept.get(key, "")) for key in ("name", "version", "versionsuffix"))
    is_own = found.root.is_relative_to(space.software) and module == f"{first[0]}/{first[1]}{first[2]}"
    proposal = propose_on(
        module,
        kept,
        name=name,
        version=version or found.version,
        first=(first[0], first[1], first[2]) if is_own else None,
    )
    path = place_of(output, proposal)
    write_proposal(
        path.parent,
        {path.name: easyconfig_text(proposal.parameters, comments=[f"Written by sifmod on {module}: review it."])},
        proposal,
        notes=proposal.notes,
        output=output,
        force=force,
        as_json=as_json,
    )
