"""The packages that an environment is to have, read from a requirements file or a pyproject.toml.

Both are foreign text: what can't be taken as it is meant is refused, with the file and the line.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional
from urllib.parse import SplitResult, unquote, urlsplit

from packaging.dependency_groups import resolve_dependency_groups
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from sifmod.errors import SifmodError
from sifmod.host.files import chosen, content_below
from sifmod.install.pip import named_settings
from sifmod.text.suggest import perhaps

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LARGEST = 10 * 1024 * 1024  # bytes of a file of requirements or a lock
_DEEPEST = 50  # files or extras that include each other
_LONGEST_LINE = 65_536  # characters; a line with 500 hashes has 40,000
_MOST = 100_000  # requirements of groups that include each other: they multiply

# Options of a line of a requirements file (pip's documentation, "Requirements File Format").
_INDEX_OPTIONS = {"-i": "--index-url", "--pypi-url": "--index-url", "-f": "--find-links"}
_WITH_INDEX = ("--index-url", "--extra-index-url", "--find-links")
_FLAGS = ("--no-index", "--pre", "--require-hashes")
_WITHOUT_EFFECT = ("--only-binary", "--prefer-binary")  # only wheels are installed anyway
_FILES = {"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c"}

# A password or a token before the host of an address; with ssh, a name alone is no secret.
_LOGIN = re.compile(r"(?<!ssh)://[^/?#\s]*@|://[^/?#\s@]*:[^/?#\s]*@")
_HASH = re.compile(r"(?<=\s)--hash(?:=|\s+)(\S+)")
# What pip replaces in requirements files by a variable of the environment, which may be a token or a password.
_VARIABLE = re.compile(r"\$\{[^}]*\}?")
# The file name of a wheel: it becomes part of programs.
WHEEL_NAME = re.compile(r"[A-Za-z0-9_.+!-]+\.whl")
_ONLY_WHEELS = "only wheels are installed: make one with 'pip wheel --no-deps', and name the wheel"
_NO_CREDENTIALS = "credentials don't belong here: keep them in pip's configuration or in ~/.netrc"


@dataclass(frozen=True)
class Requirements:
    """What an environment is to have."""

    origin: str  # name of the file
    lines: tuple[str, ...]  # requirements, one a line, as pip reads them; local wheels are `NAME @ file:///...`
    names: tuple[str, ...]  # normalized names of these packages
    constraints: tuple[str, ...] = ()  # constraints in the same form
    options: tuple[str, ...] = ()  # options for pip that say where packages come from, one a line
    python: SpecifierSet = field(default_factory=SpecifierSet)  # versions of Python that the project supports
    name: str = ""  # name of the project; empty if the file has none
    version: str = ""  # its version; empty if the file has none
    folder: Path = Path()  # the folder of the file; packages are taken from there and from folders below it
    notes: tuple[str, ...] = ()  # what of the file was not read, a sentence each


@dataclass
class _Found:
    """What was read so far: requirements with their packages' names, constraints and options, in order; and files.

    `top` is the folder of the file that the user named.
    """

    top: Path
    requirements: dict[str, str] = field(default_factory=dict)
    constraints: dict[str, str] = field(default_factory=dict)
    options: dict[str, None] = field(default_factory=dict)
    files: set[tuple[Path, bool]] = field(default_factory=set)


def read_requirements(path: Path) -> Requirements:
    """Return the requirements of a requirements file, and of the files that it includes."""
    found = _Found(chosen(path).parent)
    _read_file(path, found, found.requirements, above=())
    if not found.requirements:
        raise SifmodError(f"'{path}' names no packages")
    return Requirements(
        origin=path.name,
        lines=tuple(found.requirements),
        names=tuple(dict.fromkeys(found.requirements.values())),
        constraints=tuple(found.constraints),
        options=tuple(found.options),
        folder=found.top,
    )


def read_pyproject(path: Path, *, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> Requirements:
    """Return the requirements of a project; the project itself is neither built nor installed."""
    tables = toml_of(path)
    project = _table(path, tables, "project")
    if not isinstance(project.get("name"), str):
        _unread(path, tables, ())
        raise SifmodError(f"'{path}' has no name in [project], so it is not the pyproject.toml of a project")
    if {"dependencies", "optional-dependencies"} & set(_texts(path, project, "dynamic")):
        raise SifmodError(
            f"'{path}' leaves its dependencies to its build backend (dynamic), which would have to run the project's "
            "code: list them in a requirements file, and name that"
        )
    wanted = [*_texts(path, project, "dependencies")]
    optional = _table(path, project, "optional-dependencies", parent="project.")
    known: set[str] = set()
    spelled: dict[str, str] = {canonicalize_name(name): name for name in optional}
    for extra in extras:
        wanted += _of_extra(path, project["name"], optional, extra, spelled, above=(), known=known)
    wanted += _of_groups(path, tables, groups)
    found = _Found(chosen(path).parent)
    for text in wanted:
        check_line(text, f"'{path}'")
        line, name = _requirement(text, f"'{path}', the requirement {text!r}", path.parent, found.top)
        found.requirements[line] = name
    _refuse_sources(path, tables, found.requirements.values())
    others = (text for name in optional for text in _texts(path, optional, name))
    names = {re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0] for text in (project["name"], *wanted, *others)}
    notes = _unread(path, tables, set(map(canonicalize_name, names)))
    if not found.requirements:
        raise SifmodError(f"'{path}' has no dependencies: name an extra with --extra or a group with --group")
    version = project.get("version", "")
    return Requirements(
        origin=path.name,
        lines=tuple(found.requirements),
        names=tuple(dict.fromkeys(found.requirements.values())),
        python=_python_of(path, project.get("requires-python", "")),
        name=project["name"],
        version=version if isinstance(version, str) else "",
        folder=found.top,
        notes=tuple(notes),
    )


def toml_of(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(text_of(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SifmodError(f"'{path}' is not TOML: {error}") from error


def text_of(path: Path, *, top: Optional[Path] = None) -> str:
    """Return the text of a file of packages, which must lie in a folder, by default the one that it is named in.

    Raises:
        SifmodError: it can't be read, lies elsewhere, is too large, or is not UTF-8; the message has nothing of it.
    """
    path = path if top else chosen(path)
    top = top or path.parent
    try:
        content = content_below(top, os.path.relpath(path, top), longest=_LARGEST)
        return content.decode("utf-8-sig")
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise SifmodError(f"'{path}' is larger than {_LARGEST} bytes, so it is not a list of packages") from error
        raise SifmodError(f"'{path}' can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SifmodError(f"'{path}' is not UTF-8 text: {error.reason} at byte {error.start}") from error


def package_path(path: Path, top: Path) -> Path:
    """Return the absolute path of a package, or of a folder of packages, that a file names, if it may be taken.

    A stranger's file must not choose what of this host a container sees.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - without '..', and with links
    real = Path(os.path.realpath(path))  # Path.resolve has a RuntimeError for a link to itself
    if not real.is_relative_to(os.path.realpath(top)) and not is_users_own(real):
        raise ValueError(
            f"'{path}' is not below '{top}', where the file is: put a copy there, or set PIP_FIND_LINKS to its folder"
        )
    return path


def is_users_own(path: Path) -> bool:
    """Return whether a path lies in a folder that the user's own settings of pip name."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(own)) for _setting, own in named_settings(os.environ))


def check_line(text: str, where: str) -> None:
    """Refuse a line in which pip would read something else than what was checked, or that has a password."""
    variable = _VARIABLE.search(text)
    if variable:
        name = variable[0] if re.fullmatch(r"\$\{\w+\}", variable[0]) else "in '${...}'"
        raise SifmodError(f"{where}: pip would replace the variable {name}: write its value. {_NO_CREDENTIALS}")
    if has_login(text):
        raise SifmodError(f"{where}: {_NO_CREDENTIALS}")
    if not text.replace("\t", " ").isprintable() or text.endswith("\\"):
        raise SifmodError(f"{where}: a requirement is one line of printable text: remove the other characters")


def has_login(text: str) -> bool:
    """Return whether an address in a text has a password or a token, which no message and no file may contain."""
    return _LOGIN.search(text) is not None


def _read_file(path: Path, found: _Found, target: dict[str, str], *, above: tuple[Path, ...]) -> None:
    """Read a file into `target`, which is either the requirements or the constraints of `found`."""
    real = Path(os.path.realpath(path))  # Path.resolve has a RuntimeError for a link to itself
    if real in above:
        raise SifmodError(f"'{path}' includes itself")
    if len(above) > _DEEPEST:
        raise SifmodError(f"'{path}' is included by more than {_DEEPEST} files in a chain")
    part = (real, target is found.requirements)
    if part in found.files:  # files that include each other several times would multiply
        return
    found.files.add(part)
    for number, line in _logical_lines(text_of(path, top=found.top)):
        where = f"'{path}', line {number}"
        if len(line) > _LONGEST_LINE:
            raise SifmodError(f"{where}: it has more than {_LONGEST_LINE:,} characters, so it is not a requirement")
        check_line(line, where)
        if not line.startswith("-"):
            requirement, name = _requirement(line, where, path.parent, found.top)
            target[requirement] = name
            continue
        option, value = _option(line)
        if option in _FILES:
            if "://" in value or not value:
                raise SifmodError(f"{where}: '{line}' does not name a file of this host: download it first")
            below = found.requirements if _FILES[option] == "-r" and target is found.requirements else found.constraints
            _read_file(path.parent / value, found, below, above=(*above, real))
        elif option in _WITH_INDEX:
            found.options[f"{option} {_place(option, value, where, path.parent, found.top)}"] = None
        elif option in _FLAGS and not value:
            found.options[option] = None
        elif option not in _WITHOUT_EFFECT:
            raise SifmodError(f"{where}: {_refusal(option, line)}")


def _refusal(option: str, line: str) -> str:
    if option in ("-e", "--editable"):
        return f"'{line}' installs a source folder that the image would not have; {_ONLY_WHEELS}"
    if option == "--no-binary":
        return f"'{line}' asks for a build from source; {_ONLY_WHEELS}"
    known = [*_INDEX_OPTIONS.values(), *_WITH_INDEX, *_FLAGS, *_FILES]
    return f"the option '{option}' is not supported here{perhaps(option, known)}: remove it, or set it for pip itself"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that says something: continuations joined, comments removed."""
    first = 0
    joined: list[str] = []
    # the empty line ends a continuation at the end of the file
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        is_comment = line.lstrip().startswith("#")
        first = first or number
        if line.endswith("\\") and not is_comment:
            joined.append(line[:-1])
            continue
        joined.append("" if is_comment else line)
        whole = "".join(joined)
        comment = re.search(r"(?<!\S)#", whole)
        stripped = (whole[: comment.start()] if comment else whole).strip()
        if stripped:
            yield first, stripped
        first = 0
        joined.clear()


def _option(line: str) -> tuple[str, str]:
    """Return the option of a line, by its long name, and its value."""
    if line.startswith("--"):
        option, _, value = line.replace("=", " ", 1).partition(" ") if "=" in line.split()[0] else line.partition(" ")
    else:
        option, value = line[:2], line[2:].removeprefix("=")
    return _INDEX_OPTIONS.get(option, option), value.strip().strip("'\"")


def _place(option: str, value: str, where: str, folder: Path, top: Path) -> str:
    """Return an address of an index, or of a folder of wheels, as a URL."""
    parts = _parts(value, where)
    if parts.scheme in ("http", "https"):
        if re.search(r"\s", value):
            raise SifmodError(f"{where}: the address '{value}' has white space")
        return value
    if option != "--find-links":
        raise SifmodError(
            f"{where}: '{value}' is not an address of http or https; to use an index on this host, set PIP_INDEX_URL"
        )
    is_address = parts.scheme == "file" and parts.netloc in ("", "localhost")
    path = Path(unquote(parts.path)) if is_address else folder / value
    path = _checked_path(path, where, top)
    if not value or not path.is_dir():
        raise SifmodError(f"{where}: there is no folder '{path}' to find packages in")
    return path.as_uri()


def _checked_path(path: Path, where: str, top: Path) -> Path:
    try:
        return package_path(path, top)
    except (ValueError, OSError) as error:
        raise SifmodError(f"{where}: {error}") from error


def _parts(address: str, where: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise SifmodError(f"{where}: '{address}' is not an address: {error}") from error


def _requirement(text: str, where: str, folder: Path, top: Path) -> tuple[str, str]:
    """Return one requirement as a line for pip, and the normalized name of its package."""
    hashes = tuple(match[1] for match in _HASH.finditer(text))
    bare = _HASH.sub("", text).strip()
    for one in hashes:
        if not re.fullmatch(r"(sha256|sha384|sha512):[0-9a-fA-F]+", one):
            raise SifmodError(f"{where}: '{one}' is not a SHA-2 hash such as sha256:...")
    if re.search(r"\s--?[a-z]", bare):
        raise SifmodError(f"{where}: options of a single package are not supported: {_ONLY_WHEELS}")
    if re.match(r"(?:[^@]*@\s*)?(git|hg|svn|bzr)\+", bare):
        raise SifmodError(f"{where}: '{bare}' is a repository of source code; {_ONLY_WHEELS}")
    place = re.fullmatch(r"([./~].*\.whl|[^\s\[\];]+?)(\[[^\]]*\])?(\s*;.*)?", bare)
    if place and (place[1].startswith((".", "/", "~")) or re.search(r"://|/|\.(whl|zip|tar\.\w+|tgz)$", place[1])):
        bare = _wheel(place[1], place[2] or "", where, folder, top) + (f" {place[3].strip()}" if place[3] else "")
    try:
        parsed = Requirement(bare)
    except (InvalidRequirement, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise SifmodError(f"{where}: '{bare}' is not a requirement such as numpy>=1.26: {reason}") from error
    if parsed.url:
        extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else ""
        bare = _wheel(parsed.url, extras, where, folder, top) + (f" ; {parsed.marker}" if parsed.marker else "")
        if canonicalize_name(Requirement(bare).name) != canonicalize_name(parsed.name):
            raise SifmodError(f"{where}: '{parsed.url}' is the wheel of {Requirement(bare).name}, not of {parsed.name}")
    return " ".join([bare, *(f"--hash={one}" for one in hashes)]), canonicalize_name(parsed.name)


def _wheel(place: str, extras: str, where: str, folder: Path, top: Path) -> str:
    """Return the requirement for a wheel at an address or in a file."""
    parts = _parts(place, where)
    name = unquote(parts.path).rpartition("/")[2]
    if not name.endswith(".whl"):
        raise SifmodError(f"{where}: '{place}' is not a wheel; {_ONLY_WHEELS}")
    if not WHEEL_NAME.fullmatch(name):
        raise SifmodError(f"{where}: {name!r} is not the file name of a wheel: it has other characters")
    if parts.scheme in ("http", "https"):
        if re.search(r"\s", place):
            raise SifmodError(f"{where}: the address '{place}' has white space")
        url = place
    elif parts.scheme in ("", "file") and parts.netloc in ("", "localhost"):
        path = _checked_path(Path(unquote(parts.path)) if parts.scheme else folder / place, where, top)
        if not path.is_file():
            raise SifmodError(f"{where}: there is no file '{path}'")
        url = path.as_uri()
    else:
        raise SifmodError(f"{where}: '{place}' is not an address of https, http or file")
    try:
        project = parse_wheel_filename(name)[0]
    except InvalidWheelFilename as error:
        raise SifmodError(f"{where}: '{name}' is not the file name of a wheel: {error}") from error
    return f"{project}{extras} @ {url}"


def _table(path: Path, tables: Mapping[str, Any], key: str, *, parent: str = "") -> Mapping[str, Any]:
    table = tables.get(key, {})
    if not isinstance(table, Mapping):
        raise SifmodError(f"'{path}': {parent}{key} is not a table")
    return table


def _texts(path: Path, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SifmodError(f"'{path}': {key} is not a list of strings")
    return tuple(value)


def _of_extra(
    path: Path,
    project: str,
    optional: Mapping[str, Any],
    extra: str,
    spelled: Mapping[str, str],
    *,
    above: tuple[str, ...],
    known: set[str],
) -> list[str]:
    """Return the requirements of an extra, with those of other extras that it includes as `PROJECT[EXTRA]`.

    Those in `known`, which gets the names of all, are left out. `spelled` has the names in the file by normalized name.
    """
    key = canonicalize_name(extra)
    if key not in spelled:
        raise SifmodError(f"'{path}' has no extra '{extra}'{perhaps(extra, optional)}: it has {_listed(optional)}")
    if key in above:
        raise SifmodError(f"'{path}': the extra '{extra}' includes itself")
    if len(above) > _DEEPEST:
        raise SifmodError(f"'{path}': the extra '{extra}' is included by more than {_DEEPEST} extras in a chain")
    if key in known:
        return []
    known.add(key)
    found = []
    for text in _texts(path, optional, spelled[key]):
        try:
            included = Requirement(text)
        except (InvalidRequirement, RecursionError):
            included = None  # refused with its place later
        if included and canonicalize_name(included.name) == canonicalize_name(project):
            for one in sorted(included.extras):
                found += _of_extra(path, project, optional, one, spelled, above=(*above, key), known=known)
        else:
            found.append(text)
    return found


def _of_groups(path: Path, tables: Mapping[str, Any], groups: Sequence[str]) -> list[str]:
    table = _table(path, tables, "dependency-groups")
    items: dict[str, Any] = {canonicalize_name(name): value for name, value in table.items()}
    for group in groups:
        if canonicalize_name(group) not in items:
            raise SifmodError(f"'{path}' has no group '{group}'{perhaps(group, table)}: it has {_listed(table)}")
    try:
        known: dict[str, int] = {}
        size = sum(_size_of_group(items, group, known) for group in groups)
        found = list(resolve_dependency_groups(table, *groups)) if size <= _MOST else []
    except Exception as error:  # the library's own errors are groups of exceptions
        reason = "; ".join(map(str, getattr(error, "exceptions", [error])))
        raise SifmodError(f"'{path}': [dependency-groups] can't be used: {reason}") from error
    if size > _MOST:
        raise SifmodError(f"'{path}': the groups {', '.join(groups)} have more than {_MOST} requirements")
    return found


def _size_of_group(items: Mapping[str, Any], group: str, known: dict[str, int]) -> int:
    """Return the number of requirements of a group and those that it includes, once for each time.

    A group that includes itself, which the library refuses, counts once.
    """
    name = canonicalize_name(group)
    if name not in known:
        known[name] = 1
        inner = (item.get("include-group") if isinstance(item, Mapping) else None for item in items.get(name, ()))
        known[name] = sum(_size_of_group(items, one, known) if isinstance(one, str) else 1 for one in inner)
    return known[name]


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"


def _python_of(path: Path, value: Any) -> SpecifierSet:
    try:
        return SpecifierSet(value)
    except (InvalidSpecifier, TypeError) as error:
        raise SifmodError(f"'{path}': requires-python = {value!r} is not a set of versions such as '>=3.10'") from error


def _refuse_sources(path: Path, tables: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse packages that uv would take from elsewhere: pip does not read that, and another may have its name."""
    tool = _table(path, tables, "tool")
    sources = _table(path, _table(path, tool, "uv", parent="tool."), "sources", parent="tool.uv.")
    elsewhere = sorted(set(map(canonicalize_name, sources)) & set(names))
    if elsewhere:
        raise SifmodError(
            f"'{path}': tool.uv.sources says where {', '.join(elsewhere)} comes from, which only uv reads: write a "
            f"lock with {UV}"
        )


# Tables in which tools of projects keep dependencies that [project] lacks: which tool, where, and what makes a file of
# packages from them.
# Poetry 2 exports by a plugin (its documentation, "Commands", "export").
POETRY = (
    "'poetry self add poetry-plugin-export' and 'poetry export -f requirements.txt -o requirements.txt', and name that "
    "file"
)
PDM = "'pdm export -f requirements -o requirements.txt', and name that file"
PIXI = "'pixi project export conda-environment environment.yml', and name that file"
UV = "'uv export --no-emit-project --format pylock.toml -o pylock.toml', and name that file"
_NEEDED = (
    (("poetry", "dependencies"), POETRY),
    (("pixi", "dependencies"), PIXI),
    (("pixi", "pypi-dependencies"), PIXI),
)
_OPTIONAL = (
    (("poetry", "group"), POETRY),
    (("poetry", "dev-dependencies"), POETRY),
    (("poetry", "source"), POETRY),
    (("pixi", "feature"), PIXI),
    (("pixi", "target"), PIXI),
    (("uv", "dev-dependencies"), UV),
    *((("uv", key), UV) for key in ("constraint-dependencies", "override-dependencies", "index", "index-url")),
    *((("uv", key), UV) for key in ("extra-index-url", "find-links", "no-index")),
)


def _unread(path: Path, tables: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return a sentence for each table of another tool that says more than what was read."""
    for keys, remedy in _NEEDED:
        table = _at(tables, ("tool", *keys))
        needed = {
            canonicalize_name(name)
            for name, value in (table.items() if isinstance(table, Mapping) else ())
            if not (isinstance(value, Mapping) and value.get("optional"))
        }
        lacking = sorted(needed - {*known, "python"})
        if lacking:
            raise SifmodError(
                f"'{path}': [tool.{'.'.join(keys)}] is not read, and has packages that [project] does not have: "
                f"{', '.join(lacking)}. List them in [project], or write a file with {remedy}"
            )
    return [
        f"[tool.{'.'.join(keys)}] of {path.name} is not read. If it matters here, write a file with {remedy}"
        for keys, remedy in _OPTIONAL
        if _at(tables, ("tool", *keys))
    ]


def _at(tables: Any, keys: Sequence[str]) -> Any:
    """Return what nested tables have at some keys; None if they lack one."""
    for key in keys:
        tables = tables.get(key) if isinstance(tables, Mapping) else None
    return tables
