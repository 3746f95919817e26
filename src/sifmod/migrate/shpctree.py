"""The modules that SHPC has installed: its Lua or Tcl module files name the image and the commands.

The help of a module has a line for each command, whether it is a shell function or a script (templates in SHPC's
shpc/main/modules/templates), so that is what is read. Module files are not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sifmod.container.gpu import VENDORS
from sifmod.errors import RecipeError
from sifmod.host.files import chosen, content_below, walk
from sifmod.migrate.recipe import Alias, Tool

MODULE_FILES = ("module.lua", "module.tcl")
# The name that SHPC's settings have for the file with the variables of a container.
_ENVIRONMENT = "99-shpc.sh"

_IMAGE = re.compile(r"^(?:local containerPath = '([^'\n]+)'|set containerPath (\S(?:.*\S)?))\s*$", re.MULTILINE)
# where the file with the variables lies, if not beside the module file
_WRAPPERS = re.compile(r"^(?:local wrapperDir = |set wrapperDir )\"(/[^\"\n]+)\"\s*$", re.MULTILINE)
_OPTIONS = r"(?P<options>(?:(?!<container>)[^\n])*)<container>"
_COMMAND = re.compile(rf"^ - (?P<name>[^\n]+):\n +\S+ exec {_OPTIONS} (?P<command>\S[^\n]*?) \"\$@\"$", re.MULTILINE)
_ANY = re.compile(rf"^ - [^\n]+:\n +\S+ exec {_OPTIONS} \"\$@\"$", re.MULTILINE)
_WHATIS = r"^whatis\(\"{} *: (.*)\"\)$"
_EXPORT = re.compile(r"^export ([A-Za-z_][A-Za-z0-9_]*)=\"(.*)\"$", re.MULTILINE)
_LARGEST = 4 * 1024 * 1024


def installed_modules(top: Path) -> list[Path]:
    """Return the module files of a tree, sorted, not through links, which views consist of; RecipeError without any."""
    found = []
    for folder, folders, files in walk(top):
        folders.sort()
        found += [
            path
            for path in (Path(folder, name) for name in MODULE_FILES if name in files)
            if not path.is_symlink() and path.parent.parent != top
        ]
    if not found:
        raise RecipeError(
            "no module tree",
            f"'{top}' has no {' or '.join(MODULE_FILES)}: name SHPC's module_base (shpc config get module_base)",
        )
    return found


def read_module(path: Path, top: Path) -> tuple[Tool, Path]:
    """Return what SHPC made a module of, below the folder of all modules, and the path of its image.

    Raises:
        RecipeError: it is not a module of SHPC, or its image is gone or can't be read.
    """
    try:
        text = content_below(chosen(path).parent, path.name)[:_LARGEST].decode()
    except OSError as error:
        raise RecipeError("it can't be read", f"'{path}' can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError("not a module of SHPC", f"'{path}' is not a module of SHPC: it is not UTF-8") from error
    is_tcl = path.suffix == ".tcl"
    if is_tcl:
        text += _help_of_tcl(text)
    image = _IMAGE.search(text)
    if "singularity-hpc" not in text or not image:
        raise RecipeError(
            "not a module of SHPC", f"'{path}' is not a module of SHPC with a SIF: it names no containerPath"
        )
    sif = Path(image[1] or image[2])
    try:
        is_there = sif.is_absolute() and sif.is_file()
    except OSError as error:
        raise RecipeError(
            "the image can't be read", f"'{path}' can't be converted: its image '{sif}' can't be read: {error.strerror}"
        ) from error
    if not is_there:
        raise RecipeError("the image is gone", f"'{path}' can't be converted: its image '{sif}' is not there")
    folder = path.parent.relative_to(top)
    wrappers = _WRAPPERS.search(text)
    variables = Path(wrappers[1], _ENVIRONMENT) if wrappers else path.with_name(_ENVIRONMENT)
    options = next((found["options"] for found in _ANY.finditer(text)), "")
    aliases = tuple(_aliases(text, options))
    options = options or next((found["options"] for found in _COMMAND.finditer(text)), "")
    vendor = next((key for key, one in VENDORS.items() if f"--{one.option}" in options.split()), "")
    tool = Tool(
        origin=f"'{path}'",
        path=str(folder.parent),
        tag=folder.name,
        image={"sources": [sif.name], "image_mode": "link", **({"gpu": vendor} if vendor else {})},
        aliases=aliases,
        env=tuple(_env(variables)),
        features=(*(["gpu"] if vendor else []), *_features(options)),
        description=_whatis(text, "Description"),
        url=_whatis(text, "Url"),
    )
    return tool, sif


def _help_of_tcl(text: str) -> str:
    """Return the lines that the help of a Tcl module prints."""
    lines = re.findall(r"^ *puts stderr \"(.*)\"$", text, re.MULTILINE)
    return "\n" + "\n".join(re.sub(r"\\([\"$])", r"\1", line) for line in lines) + "\n"


def _aliases(text: str, usual: str) -> Iterator[Alias]:
    """Yield the commands; what comes after the usual options of the runtime is for one command alone."""
    for found in _COMMAND.finditer(text):
        own = found["options"][len(usual) :] if found["options"].startswith(usual) else ""
        yield Alias(found["name"], found["command"], own.strip())


def _features(options: str) -> Iterator[str]:
    words = options.split()
    if "--home" in words:
        yield "home"
    if any(word.endswith(".Xauthority") for word in words):
        yield "x11"


def _env(path: Path) -> Iterator[tuple[str, str]]:
    try:
        text = content_below(chosen(path).parent, path.name).decode()
    except (OSError, UnicodeDecodeError):  # SHPC writes one for each module, but it may have another name
        return
    yield from ((found[1], found[2]) for found in _EXPORT.finditer(text))


def _whatis(text: str, key: str) -> str:
    found = re.search(_WHATIS.format(key), text, re.MULTILINE)
    return found[1] if found else ""
