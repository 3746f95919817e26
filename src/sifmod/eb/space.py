"""A software space: the folders that EasyBuild installs into, from its own settings."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.errors import InstallError

# Settings of EasyBuild that say where software and modules go, with their defaults (`eb --help`, "Configuration").
_DEFAULTS = {
    "installpath": "",
    "installpath-modules": "",
    "installpath-software": "",
    "prefix": "",
    "sourcepath": "",
    "subdir-modules": "modules",
    "subdir-software": "software",
    "suffix-modules-path": "all",
}


@dataclass(frozen=True)
class SoftwareSpace:
    """Where one user's EasyBuild installs to.

    Attributes:
        software: folder of the installations: `NAME/VERSION` below it.
        modules: folder of the module trees: `all/NAME/VERSION.lua` below it, and links to it by module class.
        suffix: name of the tree that holds the module files themselves.
    """

    software: Path
    modules: Path
    suffix: str = "all"


def software_space(prefix: Optional[Path] = None, environ: Optional[Mapping[str, str]] = None) -> SoftwareSpace:
    """Return the software space in force: a given prefix < nothing else; else EASYBUILD_* < EasyBuild's own files.

    EasyBuild's default prefix, `~/.local/easybuild`, counts where nothing names another.

    Args:
        prefix: EasyBuild prefix to look at in place of the one in force.
        environ: the environment to read, `os.environ` by default.

    Raises:
        InstallError: the prefix is no directory, or a configuration file of EasyBuild can't be read.
    """
    environ = os.environ if environ is None else environ
    settings = _settings(environ)
    if prefix is not None:
        if not prefix.is_dir():
            raise InstallError(f"there is no directory '{prefix}': give --prefix the prefix of an EasyBuild")
        settings.update({"prefix": str(prefix.absolute()), "installpath": ""})
        settings.update({"installpath-software": "", "installpath-modules": ""})
    home = environ.get("HOME") or "/"
    base = settings["installpath"] or settings["prefix"] or str(Path(home, ".local", "easybuild"))

    def folder(kind: str) -> Path:
        chosen = settings[f"installpath-{kind}"] or os.path.join(base, settings[f"subdir-{kind}"])  # noqa: PTH118 - absolute subdirs win
        return Path(chosen).expanduser().absolute()

    return SoftwareSpace(folder("software"), folder("modules"), settings["suffix-modules-path"])


def source_paths(environ: Optional[Mapping[str, str]] = None) -> tuple[Path, ...]:
    """Return the folders in which EasyBuild looks for sources; it keeps them in the first one.

    Args:
        environ: the environment to read, `os.environ` by default.

    Raises:
        InstallError: a configuration file of EasyBuild can't be read.
    """
    environ = os.environ if environ is None else environ
    settings = _settings(environ)
    base = settings["prefix"] or str(Path(environ.get("HOME") or "/", ".local", "easybuild"))
    folders = [folder for folder in settings["sourcepath"].split(":") if folder] or [str(Path(base, "sources"))]
    return tuple(Path(folder).expanduser().absolute() for folder in folders)


def letter_folder(name: str) -> Path:
    """Return the folder of a module's sources, below those of `source_paths` (EasyBuild's `letter_dir_for`)."""
    return Path(name[0].lower() if name[0].isascii() and name[0].isalpha() else "0", name)


def _settings(environ: Mapping[str, str]) -> dict[str, str]:
    return {**_DEFAULTS, **_from_files(environ), **_from_variables(environ)}


def _from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    values = {name: environ.get("EASYBUILD_" + name.upper().replace("-", "_"), "") for name in _DEFAULTS}
    return {name: value for name, value in values.items() if value}


def _from_files(environ: Mapping[str, str]) -> dict[str, str]:
    """Read EasyBuild's files in its order: the later one counts (EasyBuild docs, "Configuration files")."""
    paths = [Path(path) for path in environ.get("EASYBUILD_CONFIGFILES", "").split(",") if path]
    if not paths:
        home = environ.get("HOME") or "/"
        for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
            paths += sorted(Path(folder, "easybuild.d").glob("*.cfg")) if folder else []
        paths.append(Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config", "easybuild", "config.cfg"))
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names of variables keep their case
    # what EasyBuild offers to interpolate: the environment's variables, in upper case
    variables = {name: value.replace("%", "%%") for name, value in environ.items() if name.isupper()}
    parser.read_dict({configparser.DEFAULTSECT: variables})
    values: dict[str, str] = {}
    try:
        parser.read([str(path) for path in paths], encoding="utf-8")
        for section in parser.sections():
            for name in _DEFAULTS:
                text = parser.get(section, name, fallback="")
                if text:
                    values[name] = text
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        files = ", ".join(f"'{path}'" for path in paths if path.exists())
        raise InstallError(f"EasyBuild's configuration ({files}) can't be read: {error}") from error
    return values
