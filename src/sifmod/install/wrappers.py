"""The commands that `wrappers` names: a wrapper whose command the container certainly lacks is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Optional

from sifmod.container.spec import ContainerSpec
from sifmod.errors import ImageError, ParameterError
from sifmod.image import system
from sifmod.image.files import ImageFiles
from sifmod.image.inspection import open_image
from sifmod.render.environment import setting_variables, structural_variables
from sifmod.render.templates import render
from sifmod.site.settings import Site
from sifmod.text.suggest import perhaps
from sifmod.usersoftware.tree import has_user_software


def check_wrappers(spec: ContainerSpec, site: Site, image: Path, *, user_software: Optional[Path] = None) -> None:
    """Refuse wrappers for commands that the container does not have.

    A command that the files of the image don't rule out is taken: one that users or `pip_requirements` may have
    installed, that a bind path or the runtime may bring, or that an entry point or a script may add to PATH.
    """
    # these two run the interpreter of the container, whatever is in its PATH
    is_own = re.compile(r"(python|pip)[0-9.]*" if spec.python else r"(?!)")
    wanted = [one for one in spec.wrappers if one in spec.wrapper_commands or not is_own.fullmatch(one)]
    by_users = bool(spec.venv) and has_user_software(Path(spec.installdir))
    by_pip = bool(spec.pip_requirements) and user_software is None
    if not wanted or by_users or by_pip or spec.launch == "run":
        return
    try:
        there = _commands(spec, site, image)
        _check_paths(spec, site, image)
    except ImageError:
        return
    if there is None:
        return
    if user_software and spec.venv:
        there |= {path.name for path in (user_software / "venv" / spec.venv / "bin").iterdir()}
    for wrapper in wanted:
        command = spec.command_of(wrapper)[0]
        if not command.startswith("/") and command not in there:
            remedy = (
                f"the container has no such command in its PATH{perhaps(command, sorted(there))}. Correct the name, "
            )
            remedy += "or add the package that brings it to pip_requirements" if spec.venv else "or remove it"
            raise ParameterError("wrappers", wrapper, remedy)


def _check_paths(spec: ContainerSpec, site: Site, image: Path) -> None:
    """Refuse wrappers for paths where the image has no program."""
    paths = {name: words[0] for name, words in spec.wrapper_commands.items() if words[0].startswith("/")}
    with open_image(image) as (_known, files):
        if files is None:
            return
        for name, path in paths.items():
            folder = str(PurePosixPath(path).parent)
            if not files.is_file(path) and not _is_elsewhere(files, folder, _bound(spec, site)):
                remedy = f"the image has no file '{path}'{perhaps(PurePosixPath(path).name, files.names(folder))}"
                raise ParameterError("wrappers", {name: path}, f"{remedy}. Correct the path")


def _bound(spec: ContainerSpec, site: Site) -> list[str]:
    return [bind.destination for bind in (*site.binds, *site.optional_binds, *spec.binds)]


def _commands(spec: ContainerSpec, site: Site, image: Path) -> Optional[set[str]]:
    """Return the names in the container's PATH; None if the files of the image don't tell it."""
    with open_image(image) as (_known, files):
        if files is None:
            return None
        settings = setting_variables(spec, site)
        path = tuple(settings["PATH"].split(":")) if "PATH" in settings else system.search_path(files)
        if path is None or any("$" in folder for folder in path):
            return None
        folders = (*structural_variables(spec)["PREPEND_PATH"].split(":"), *path)
        bound = _bound(spec, site)
        if any(_is_elsewhere(files, folder, bound) for folder in folders):
            return None
        # without the wrappers, of which there may be hundreds: none is in the container
        scripts = render(replace(spec, wrappers=(), wrapper_commands={}), site)
        there = {item.path.name for item in scripts if item.path.parts[0] == "runscripts"}
        there |= {PurePosixPath(place).name for place in bound}
        there |= set(spec.runtime_gpu.commands) if spec.runtime_gpu else set()
        return there | {name for folder in folders if folder.startswith("/") for name in files.names(folder)}


def _is_elsewhere(files: ImageFiles[Any], folder: str, bound: Sequence[str]) -> bool:
    """Return whether a folder is below a bind path, or behind a link that leads nowhere in the image."""
    places: Iterable[str] = (folder, files.resolved(folder))
    if any(f"{place}/".startswith(f"{bind.rstrip('/')}/") for place in places for bind in bound):
        return True
    path = PurePosixPath(folder)
    missing = next((one for one in (*reversed(path.parents), path) if not files.is_directory(str(one))), None)
    return missing is not None and missing.name in files.names(str(missing.parent))
