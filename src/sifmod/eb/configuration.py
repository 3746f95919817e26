"""EasyBuild's configuration: the paths that `eb` would use here, from its variables and its configuration files.

Only this module reads them. It is a reader of our own, because EasyBuild's takes most of a second to import, which
`sifmod list` and completion in a shell would pay for every time, and because sifmod's Python can't import an EasyBuild
that is a module. A contract test (tests/unit/eb/test_configuration.py) asks both the same questions. This reader
shares EasyBuild's surprises: `~` is an ordinary name, and an empty value counts.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import pwd
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from sifmod.errors import EasyBuildError

_OPTIONS = (
    "installpath",
    "installpath-modules",
    "installpath-software",
    "locks-dir",
    "prefix",
    "robot",
    "robot-paths",
    "sourcepath",
    "subdir-modules",
    "subdir-software",
    "suffix-modules-path",
)

# Each section may set any option, and the last one counts: EasyBuild's order (generaloption.py, parseconfigfiles).
SECTIONS = (
    "MAIN",
    "basic",
    "config",
    "easyconfig",
    "github",
    "informative",
    "override",
    "package",
    "regtest",
    "software",
)


@dataclass(frozen=True)
class Configuration:
    """The paths of EasyBuild's configuration, all of them absolute."""

    software: Path  # folder of the installations
    modules: Path  # folder of the module trees
    suffix: str  # name of the tree in it that holds the module files themselves; the other trees link to them
    sources: tuple[Path, ...]  # folders of sources and images; `eb` keeps what it downloads in the first one
    robot_paths: tuple[Path, ...]  # folders in which `eb` looks for easyconfigs, the first one first
    locks: Path  # folder of the locks that `eb` holds while it installs


def configuration(prefix: Optional[Path] = None, environ: Optional[Mapping[str, str]] = None) -> Configuration:
    """Return EasyBuild's configuration: variables count before files, the user's file before those of the system.

    Raises:
        EasyBuildError: a configuration file can't be read, or a named one does not exist.
    """
    environ = os.environ if environ is None else environ
    default = default_robot_paths(environ)
    values = _values(environ, default)
    if prefix is not None:
        own = (name for name in values if name.startswith("installpath"))
        values = {**values, **dict.fromkeys(own, ""), "prefix": str(prefix), "installpath": str(prefix)}
    base = values.get("prefix", f"{_home(environ)}/.local/easybuild")
    installpath = values.get("installpath", base)

    def folder(kind: str) -> str:
        return values.get(f"installpath-{kind}") or _joined(installpath, values.get(f"subdir-{kind}", kind))

    sources = values.get("sourcepath", _joined(base, "sources"))
    software = folder("software")
    return Configuration(
        software=_normalized(software),
        modules=_normalized(folder("modules")),
        suffix=values.get("suffix-modules-path", "all"),
        sources=tuple(Path(path).absolute() for path in sources.split(":")),
        robot_paths=_robot_paths(values, default),
        locks=Path(values.get("locks-dir") or _joined(software, ".locks")).absolute(),
    )


def _robot_paths(values: Mapping[str, str], default: Iterable[Path]) -> tuple[Path, ...]:
    listed = values.get("robot-paths", "").split(":")
    if "" in listed:
        # the first empty element stands for the default, another one for the current directory
        first = listed.index("")
        listed[first : first + 1] = map(str, default)
    robot = values["robot"].split(":") if "robot" in values else []
    return tuple(dict.fromkeys(Path(path).absolute() for path in [*robot, *listed]))


def default_robot_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders where EasyBuild looks for easyconfigs by default: `easybuild/easyconfigs` of several places.

    These are the search path of the Python that `eb` runs, which begins with the current directory, and the prefix that
    `eb` is installed to (easybuild.framework.easyconfig.tools, get_paths_for).
    """
    eb = shutil.which("eb", path=environ.get("PATH", ""))
    own = Path(sysconfig.get_path("scripts"), "eb")
    if eb is None and own.is_file():
        eb = str(own)
    roots = []
    with contextlib.suppress(FileNotFoundError):  # the current directory was removed
        roots.append(Path.cwd())
    if eb is None or Path(eb).parent == own.parent:
        roots += map(Path, sys.path)
    else:
        # another environment, such as EasyBuild as a module: its Python path, without starting its Python
        roots += [Path(path) for path in environ.get("PYTHONPATH", "").split(":") if path]
        roots += sorted(Path(eb).resolve().parents[1].glob("lib*/python3*/site-packages"))
    if eb is not None:
        prefix = Path(eb).absolute().parents[1]
        has_easyconfigs = os.path.exists(prefix / "easybuild" / "easyconfigs")  # noqa: PTH110 - False where not readable
        roots.append(prefix if has_easyconfigs else Path(eb).resolve().parents[1])
    found = (root.absolute() / "easybuild" / "easyconfigs" for root in roots)
    return tuple(path for path in dict.fromkeys(found) if os.path.exists(path))  # noqa: PTH110 - likewise


def _values(environ: Mapping[str, str], robot_paths: Iterable[Path]) -> dict[str, str]:
    """Return the options that are set, by name."""
    values = _from_files(environ, robot_paths)
    for name in _OPTIONS:
        value = environ.get(_variable(name))
        if value is not None:
            values[name] = value
    return values


def _from_files(environ: Mapping[str, str], robot_paths: Iterable[Path]) -> dict[str, str]:
    paths = _files(environ)
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign] # EasyBuild keeps the case of names
    values: dict[str, str] = {}
    try:
        parser.read_dict({configparser.DEFAULTSECT: _constants(environ, robot_paths)})
        parser.read(paths)
        # EasyBuild looks at every section, so an error in one that it does not know counts as well
        sections = {name: dict(parser.items(name, raw=name.startswith("raw_"))) for name in parser.sections()}
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        files = ", ".join(f"'{path}'" for path in paths)
        why = " ".join(str(error).split())
        raise EasyBuildError(f"EasyBuild's configuration ({files}) can't be read: {why}") from error
    for section in SECTIONS:
        found = sections.get(section, {})
        values.update((name, found[name]) for name in _OPTIONS if name in found)
    return values


def _files(environ: Mapping[str, str]) -> list[str]:
    """Return the paths of the configuration files, the least important one first."""
    paths = []
    for folder in reversed(environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
        found = sorted(Path(folder, "easybuild.d").glob("*.cfg"))
        paths += [str(path) for path in found if not path.name.startswith(".")]
    user = Path(environ.get("XDG_CONFIG_HOME", f"{_home(environ)}/.config"), "easybuild", "config.cfg")
    if os.path.exists(user):  # noqa: PTH110 - False where a folder above may not be read
        paths.append(str(user))
    # EasyBuild compares names, not files
    named, ignored = (_listed(environ, name) for name in ("configfiles", "ignoreconfigfiles"))
    paths += named
    for path in paths:
        if not os.path.isfile(path):  # noqa: PTH113 - likewise
            raise EasyBuildError(
                f"EasyBuild's configuration file '{path}' does not exist or is not a file: correct "
                f"{_variable('configfiles')} or the file"
            )
    return [path for path in paths if path not in ignored]


def _listed(environ: Mapping[str, str], option: str) -> list[str]:
    value = environ.get(_variable(option))
    return [] if value is None else value.split(",")


def _constants(environ: Mapping[str, str], robot_paths: Iterable[Path]) -> dict[str, str]:
    """Return what EasyBuild offers for interpolation (`eb --avail-cfgfile-constants`)."""
    home = _home(environ)
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = environ.get("USER") or environ.get("LOGNAME") or str(os.geteuid())
    constants = {
        "DEFAULT_REPOSITORYPATH": f"{home}/.local/easybuild/ebfiles_repo",
        "DEFAULT_ROBOT_PATHS": ":".join(map(str, robot_paths)),
        "HOME": home,
        "USER": user,
    }
    return {name: value.replace("%", "%%") for name, value in constants.items()}


def _home(environ: Mapping[str, str]) -> str:
    """Return the home directory: HOME, else that of the user database."""
    home = environ.get("HOME")
    return home.rstrip("/") if home is not None else os.path.expanduser("~")  # noqa: PTH111 - never fails


def _variable(option: str) -> str:
    return f"EASYBUILD_{option.upper().replace('-', '_')}"


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name)  # noqa: PTH118 - keeps an empty folder and '..' as they are


def _normalized(folder: str) -> Path:
    """Return where a folder is, as EasyBuild writes it into modules and names of locks: without '..'."""
    return Path(os.path.abspath(folder))  # noqa: PTH100 - follows no links
