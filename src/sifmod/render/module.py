"""Modules: the table of what one sets, which a person reads first, and the parts of `modulefiles/` that it needs.

A module is one file of its own: it starts nothing, and reads no other code, when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sifmod import __version__, names
from sifmod.container.spec import ContainerSpec
from sifmod.render.values import Values, module_values
from sifmod.resources import data_path
from sifmod.site.settings import Site
from sifmod.text import quoting, tables

# The parts in their order, and for each the value without which a module does not have it.
PARTS = {
    "site": "help",
    "helpers": "",
    "family": "family",
    "container": "",
    "central": "central",
    "image": "image",
    "unpacked": "unpacked",
    "squashfs": "squashfs",
    "optional_binds": "optional_binds",
    "expand": "expanded",
    "patterns": "features",
    "features": "features",
    "user_software": "user_software",
    "builds_on": "bases",
    "layers": "user_software",
    "job": "mounted_anyway",
    "variables": "",
    "proxies": "proxies",
    "exported": "exported",
    "expanding": "expanding",
    "cache": "cache",
    "advisories": "advisories",
    "eb_python": "own_python_in",
    "reload": "reloading",
}

# What a reader of the values must know.
_LEGEND = (
    "In runtime_variables, _X is SINGULARITY_X and APPTAINER_X; ENV_X is SINGULARITYENV_X and APPTAINERENV_X: X in the "
    "container only.",
    "binds becomes SINGULARITY_BINDPATH and APPTAINER_BINDPATH, image SIF, installdir CONTAINERROOT and RUNSCRIPTS.",
)


def render_module(spec: ContainerSpec, site: Site, syntax: str = "Lua") -> str:
    """Return the container part of the modulefile, in the syntax `Lua` or `Tcl`, which follows EasyBuild's header."""
    comment = f"The container, {names.WRITTEN_BY} {__version__}: its values, and the code that sets them until unload."
    return "\n" + module_text(comment, module_values(spec, site), syntax)


def module_text(comment: str, values: Values, syntax: str) -> str:
    """Return a module, or the container's part of one, in Lua or Tcl: a comment, the values and the parts for them."""
    return "".join((values_text(comment, values, syntax), *(text for _name, text in parts(values, syntax))))


def values_text(comment: str, values: Values, syntax: str) -> str:
    """Return the comment and the values at the beginning of a module; see `module_text`."""
    mark, declare, table = ("--", "local v =", tables.lua) if syntax == "Lua" else ("#", "array set v", tables.tcl)
    head = "".join(f"{mark} {line}\n" for line in (quoting.comment(comment), *_LEGEND))
    return f"{head}{declare} {table(values)}\n"


def parts(values: Mapping[str, object], syntax: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the files in `modulefiles/` that these values need, as they lie."""
    folder = data_path("modulefiles")
    for part, key in PARTS.items():
        if not key or key in values:
            name = f"{part}.{syntax.lower()}"
            yield name, (folder / name).read_text(encoding="utf-8")
