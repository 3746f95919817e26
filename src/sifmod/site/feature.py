"""A feature: what a cluster offers its containers besides the usual, such as its MPI, and on which nodes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import Any, Union

from sifmod import names
from sifmod.container.bind import Bind, BindPattern, is_bindable, is_pattern
from sifmod.container.gpu import VENDORS, Vendor
from sifmod.container.variables import check_injected, check_variable, is_for_host
from sifmod.site.keys import (
    TEXT,
    VARIABLES,
    Key,
    Kind,
    absolute,
    choice,
    described,
    keys_of,
    list_schema,
    read_bind,
    read_items,
    read_text,
    read_variables,
    split,
    table_schema,
)
from sifmod.text import pattern
from sifmod.text.suggest import perhaps

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

# The variable that a library path becomes in the container.
LIBRARY_PATH = "LD_LIBRARY_PATH"

# Its value is evaluated by a shell when the container starts, so these are all that a directory's path may have.
_DIRECTORY = re.compile(r"(/[A-Za-z0-9_.+@%=-]+)+")

_HOST_PATTERN = re.compile(r"[A-Za-z0-9._*?\[\]-]+")

# The runtime's own libraries, which it mounts.
_LIBRARIES = "/.singularity.d/libs"

# Options of the runtime for which it reads a variable of the same name, with and without a value (EnvKeys in
# cmd/internal/cli/action_flags.go of Apptainer 1.4). `singularity exec` of a user is given no other.
SWITCHES = (
    *("allow-setuid", "cleanenv", "compat", "contain", "containall", "fakeroot", "ipc", "keep-privs", "net"),
    *("no-eval", "no-home", "no-privs", "no-umask", "pid", "underlay", "unsquash", "userns", "uts"),
    *("writable", "writable-tmpfs", *(vendor.option for vendor in VENDORS.values())),
)
VALUED = (
    *("add-caps", "app", "apply-cgroups", "dns", "drop-caps", "hostname", "mount", "network", "network-args"),
    *("no-mount", "overlay", "scratch", "security", "workdir"),
)

_INSTEAD = {
    "bind": "write it in binds or optional_binds",
    "env": "write it in env or container_env",
    "home": "it would replace each user's home",
}


def _bind(text: str) -> Union[Bind, BindPattern]:
    return BindPattern.parse(text) if is_pattern(text) else read_bind(text)


def _plain_variable(name: object, value: object) -> None:
    check_variable(name, value)
    if is_for_host(str(name)):
        raise ValueError(f"programs of the host read {name}: write it in container_env, which only the container gets")


def _injected_variable(name: object, value: object) -> None:
    check_variable(name, value)
    check_injected(str(name), value)
    if name == LIBRARY_PATH:
        raise ValueError("it would replace that of the image: write the directories in library_path")


def _directory(text: str) -> str:
    path = absolute(text).rstrip("/")
    if not _DIRECTORY.fullmatch(path) or posixpath.normpath(path) != path:
        raise ValueError(
            f"'{text}' can't be in a library path: write a directory of the container with letters, digits and _.+@%=-"
        )
    return path


def _option(text: str) -> str:
    name, equals, value = text.partition("=")
    option = name[2:]
    if not name.startswith("--"):
        raise ValueError(f"write '{text}' as a long option, such as '--{SWITCHES[0]}' or '--{VALUED[0]}=VALUE'")
    if option in _INSTEAD:
        raise ValueError(f"--{option} has no place here: {_INSTEAD[option]}")
    if option not in (*SWITCHES, *VALUED):
        raise ValueError(
            f"'--{option}' is not an option that the runtime also reads from a variable"
            f"{perhaps(option, (*SWITCHES, *VALUED))}, so a module can't set it"
        )
    if bool(equals and value) != (option in VALUED):
        raise ValueError(f"--{option} takes {'a value: --' + option + '=VALUE' if option in VALUED else 'no value'}")
    return read_text(text)


def _host_pattern(text: str) -> str:
    if not _HOST_PATTERN.fullmatch(text):
        raise ValueError(f"'{text}' is not a pattern of names: write letters, digits, '.', '-', '*', '?' and '[0-9]'")
    pattern.check(text)
    return text


def check_name(text: str) -> str:
    """Return the name of a feature."""
    if not NAME.fullmatch(text):
        raise ValueError(f"'{text}' can't be the name of a feature: use letters, digits, '_' and '-', no '-' first")
    return text


def _file(value: Any) -> str:
    path = read_text(value)
    if path and not is_bindable(absolute(path)):
        raise ValueError("write a path without backslash, '^' and control characters")
    return path


_PATHS = list_schema("^/")
_FEATURE_BINDS = Kind("list of bind paths, also patterns", partial(read_items, check=_bind), _PATHS)
_DIRECTORIES = Kind("list of absolute paths", partial(read_items, check=_directory), list_schema(r"^/[^:$\\]*$"))
_OPTIONS = Kind(
    "list of long options",
    partial(read_items, check=_option),
    list_schema(f"^--(({'|'.join(SWITCHES)})|({'|'.join(VALUED)})=.+)$"),
)
_HOST_PATTERNS = Kind(
    "list of patterns of names",
    partial(read_items, check=_host_pattern),
    list_schema(f"^{_HOST_PATTERN.pattern}$"),
)
_FILE = Kind("absolute path", _file, {"type": "string", "pattern": "^(/.*)?$"})
_VARIABLES = {
    check: Kind(VARIABLES.title, partial(read_variables, check=check), VARIABLES.schema)
    for check in (_plain_variable, _injected_variable)
}
FEATURE_NAMES = Kind(
    "list of names",
    partial(read_items, check=check_name),
    list_schema(f"^{NAME.pattern}$"),
    partial(split, ","),
)


@dataclass(frozen=True)
class Feature:
    """One feature of a site.

    The keys of its table are the fields after `name`.
    """

    name: str
    help: str = described(TEXT, "", "What it is for, in one line.")
    binds: tuple[Union[Bind, BindPattern], ...] = described(
        _FEATURE_BINDS, (), "Bind paths that it needs: they must exist on every node where it applies."
    )
    optional_binds: tuple[Union[Bind, BindPattern], ...] = described(
        _FEATURE_BINDS, (), "Bind paths used on the nodes where their source exists."
    )
    env: Mapping[str, Any] = described(
        _VARIABLES[_plain_variable],
        {},
        "Variables of the user's shell, which the container inherits: a later `export` of the user counts.",
    )
    container_env: Mapping[str, Any] = described(
        _VARIABLES[_injected_variable], {}, "Variables that only the container gets."
    )
    library_path: tuple[str, ...] = described(
        _DIRECTORIES, (), "Directories of the container that come before its library path, each within a bind path."
    )
    runtime_options: tuple[str, ...] = described(
        _OPTIONS, (), "Options of the runtime for which it also reads a variable, such as `--no-umask`."
    )
    conflicts: tuple[str, ...] = described(
        Kind("list of names", FEATURE_NAMES.read, FEATURE_NAMES.schema),
        (),
        "Features that can't be used together with it.",
    )
    gpu: str = described(
        choice(*VENDORS), "", "It applies on nodes with GPUs of this vendor: those with its device file."
    )
    hosts: tuple[str, ...] = described(
        _HOST_PATTERNS, (), "It applies on hosts of these names: the node's, short or in full, or Slurm's for it."
    )
    partitions: tuple[str, ...] = described(
        _HOST_PATTERNS, (), "It applies in jobs in these partitions of Slurm (`SLURM_JOB_PARTITION`)."
    )
    exists: str = described(_FILE, "", "It applies on nodes that have this file or directory.")

    @property
    def vendor(self) -> Union[Vendor, None]:
        """The vendor of its condition `gpu`; None if there is none."""
        return VENDORS.get(self.gpu)

    @property
    def condition(self) -> str:
        """The nodes on which it applies, in words; empty for all nodes."""
        conditions = [
            f"with GPUs of {self.vendor.name}" if self.vendor else "",
            f"named {' or '.join(self.hosts)}" if self.hosts else "",
            f"in a job in the partition {' or '.join(self.partitions)}" if self.partitions else "",
            f"that have {self.exists}" if self.exists else "",
        ]
        return ", ".join(filter(None, conditions))

    @property
    def options(self) -> Mapping[str, str]:
        """The runtime's variable of each option, without the prefix `SINGULARITY` or `APPTAINER`, and its value."""
        found = {}
        for option in self.runtime_options:
            name, _equals, value = option[2:].partition("=")
            found[f"_{name.upper().replace('-', '_')}"] = value or "1"
        return MappingProxyType(found)


FEATURE_KEYS: Mapping[str, Key] = keys_of(Feature)


def _tables(value: Any) -> Mapping[str, Any]:
    """Return tables of features by name, not yet read any further: their keys have lines of their own in messages."""
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise TypeError("tables of features, each under a line [feature.NAME]")
    return value


FEATURES = Kind(
    "tables `[feature.NAME]`",
    _tables,
    {
        "type": "object",
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": table_schema(keys=FEATURE_KEYS.values()),
    },
)


def chosen(changes: Iterable[str], known: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the features that a list of names leads to, in the order of the site, and the names that it does not know.

    Each name adds a feature, or takes it away if it begins with `-`; the last one counts.
    """
    found: set[str] = set()
    unknown = []
    for change in changes:
        name = change[1:] if change.startswith("-") else change
        if name not in known:
            unknown.append(name)
        elif change == name:
            found.add(name)
        else:
            found.discard(name)
    return tuple(name for name in known if name in found), tuple(unknown)


def conflicts(features: Iterable[Feature]) -> tuple[tuple[Feature, Feature], ...]:
    """Return the pairs of these features that can't be used together on a node where both apply, in their order."""
    return tuple(
        (first, second)
        for first, second in combinations(features, 2)
        if second.name in first.conflicts or first.name in second.conflicts
    )


def certain_conflicts(features: Iterable[Feature]) -> tuple[tuple[str, str], ...]:
    """Return the names of those pairs that meet wherever one of the two applies.

    Features with conditions of their own may be for different nodes, which only a node can tell.
    """
    return tuple(
        (first.name, second.name)
        for first, second in conflicts(features)
        if not (first.condition and second.condition) or first.condition == second.condition
    )


def unbound(feature: Feature, others: Iterable[Bind]) -> tuple[str, ...]:
    """Return the directories of a feature's library path that neither its bind paths nor the site's contain."""
    bound = [_LIBRARIES, names.RUNSCRIPTS]
    folders = set()
    for bind in (*feature.binds, *feature.optional_binds, *others):
        if isinstance(bind, BindPattern):
            bound.append((bind.folder or pattern.pieces(bind.pattern)[0][0]).rpartition("/")[0])
        else:
            bound.append(bind.destination.rstrip("/"))
            folders.add(posixpath.dirname(bind.destination.rstrip("/")))
    return tuple(
        path
        for path in feature.library_path
        if path not in folders and not any(f"{path}/".startswith(f"{folder}/") for folder in bound)
    )
