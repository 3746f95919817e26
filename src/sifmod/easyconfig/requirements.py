"""The packages that an environment is to have, read from a requirements file or a pyproject.toml.

Both are foreign text: what can't be taken as it is meant is refused, with the file and the line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from packaging.dependency_groups import resolve_dependency_groups
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from sifmod.errors import SifmodError
from sifmod.host.files import content_of
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
_ONLY_WHEELS = "only wheels are installed: make one with 'pip wheel --no-deps', and name the wheel"
_NO_CREDENTIALS = "credentials don't belong here: keep them in pip's configuration or in ~/.netrc"


@dataclass(frozen=True)
class Requirements:
    """What an environment is to have.

    Attributes:
        origin: name of the file.
        lines: requirements, one a line, as pip reads them; local wheels are `NAME @ file:///...`.
        names: normalized names of these packages.
        constraints: constraints in the same form.
        options: options for pip that say where packages come from, one a line.
        python: versions of Python that the project supports.
        name: name of the project; empty if the file has none.
        version: its version; empty if the file has none.
    """

    origin: str
    lines: tuple[str, ...]
    names: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    python: SpecifierSet = field(default_factory=SpecifierSet)
    name: str = ""
    version: str = ""


@dataclass
class _Found:
    """What was read so far: requirements with their packages' names, constraints and options, in order; and files."""

    requirements: dict[str, str] = field(default_factory=dict)
    constraints: dict[str, str] = field(default_factory=dict)
    options: dict[str, None] = field(default_factory=dict)
    files: set[tuple[Path, bool]] = field(default_factory=set)


def read_requirements(path: Path) -> Requirements:
    """Return the requirements of a requirements file, and of the files that it includes.

    Args:
        path: the file.

    Raises:
        SifmodError: it can't be read, or has a line that can't be taken; the message has the file and the line.
    """
    found = _Found()
    _read_file(path, found, found.requirements, above=())
    if not found.requirements:
        raise SifmodError(f"'{path}' names no packages")
    return Requirements(
        origin=path.name,
        lines=tuple(found.requirements),
        names=tuple(dict.fromkeys(found.requirements.values())),
        constraints=tuple(found.constraints),
        options=tuple(found.options),
    )


def read_pyproject(path: Path, *, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> Requirements:
    """Return the requirements of a project; the project itself is neither built nor installed.

    Args:
        path: its pyproject.toml.
        extras: names in `[project.optional-dependencies]`.
        groups: names in `[dependency-groups]`.

    Raises:
        SifmodError: the file can't be read, is not that of a project, or names something that can't be taken.
    """
    tables = toml_of(path)
    project = _table(path, tables, "project")
    if not isinstance(project.get("name"), str):
        raise SifmodError(f"'{path}' has no name in [project], so it is not the pyproject.toml of a project")
    if {"dependencies", "optional-dependencies"} & set(_texts(path, project, "dynamic")):
        raise SifmodError(
            f"'{path}' leaves its dependencies to its build backend (dynamic), which would have to run the project's "
            "code: list them in a requirements file, and use --requirements"
        )
    wanted = [*_texts(path, project, "dependencies")]
    optional = _table(path, project, "optional-dependencies", parent="project.")
    known: set[str] = set()
    for extra in extras:
        wanted += _of_extra(path, project["name"], optional, extra, above=(), known=known)
    wanted += _of_groups(path, tables, groups)
    found = _Found()
    for text in wanted:
        if has_login(text):
            raise SifmodError(f"'{path}': {_NO_CREDENTIALS}")
        line, name = _requirement(text, f"'{path}', the requirement {text!r}", path.parent)
        found.requirements[line] = name
    if not found.requirements:
        raise SifmodError(f"'{path}' has no dependencies: name an extra with --extra or a group with --group")
    _refuse_sources(path, tables, found.requirements.values())
    version = project.get("version", "")
    return Requirements(
        origin=path.name,
        lines=tuple(found.requirements),
        names=tuple(dict.fromkeys(found.requirements.values())),
        python=_python_of(path, project.get("requires-python", "")),
        name=project["name"],
        version=version if isinstance(version, str) else "",
    )


def toml_of(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        SifmodError: it can't be read, or is not TOML.
    """
    try:
        return tomllib.loads(text_of(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SifmodError(f"'{path}' is not TOML: {error}") from error


def text_of(path: Path) -> str:
    """Return the text of a file of packages.

    Raises:
        SifmodError: it can't be read, is too large, or is not UTF-8.
    """
    try:
        content = content_of(path)
        if len(content) > _LARGEST:
            raise SifmodError(f"'{path}' is larger than {_LARGEST} bytes, so it is not a list of packages")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise SifmodError(f"'{path}' can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SifmodError(f"'{path}' is not UTF-8 text: {error}") from error


def has_login(text: str) -> bool:
    """Return whether an address in a text has a password or a token, which no message and no file may contain."""
    return _LOGIN.search(text) is not None


def _read_file(path: Path, found: _Found, target: dict[str, str], *, above: tuple[Path, ...]) -> None:
    """Read a file into `target`, which is either the requirements or the constraints of `found`."""
    real = path.resolve()
    if real in above:
        raise SifmodError(f"'{path}' includes itself")
    if len(above) > _DEEPEST:
        raise SifmodError(f"'{path}' is included by more than {_DEEPEST} files in a chain")
    part = (real, target is found.requirements)
    if part in found.files:  # files that include each other several times would multiply
        return
    found.files.add(part)
    for number, line in _logical_lines(text_of(path)):
        where = f"'{path}', line {number}"
        if len(line) > _LONGEST_LINE:
            raise SifmodError(f"{where}: it has more than {_LONGEST_LINE:,} characters, so it is not a requirement")
        variable = re.search(r"\$\{\w+\}", line)
        if variable:
            raise SifmodError(
                f"{where}: pip would replace the variable {variable[0]}: write its value. {_NO_CREDENTIALS}"
            )
        if has_login(line):
            raise SifmodError(f"{where}: {_NO_CREDENTIALS}")
        if not line.startswith("-"):
            requirement, name = _requirement(line, where, path.parent)
            target[requirement] = name
            continue
        option, value = _option(line)
        if option in _FILES:
            if "://" in value or not value:
                raise SifmodError(f"{where}: '{line}' does not name a file of this host: download it first")
            below = found.requirements if _FILES[option] == "-r" and target is found.requirements else found.constraints
            _read_file(path.parent / value, found, below, above=(*above, real))
        elif option in _WITH_INDEX:
            found.options[f"{option} {_place(value, where, path.parent)}"] = None
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


def _place(value: str, where: str, folder: Path) -> str:
    """Return an address of an index, or of a folder of wheels, as a URL."""
    parts = _parts(value, where)
    if parts.scheme in ("http", "https"):
        if re.search(r"\s", value):
            raise SifmodError(f"{where}: the address '{value}' has white space")
        return value
    path = Path(unquote(parts.path)) if parts.scheme == "file" else folder / value
    if not value or not path.exists():
        raise SifmodError(f"{where}: there is no '{path}' to find packages in")
    return path.resolve().as_uri()


def _parts(address: str, where: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise SifmodError(f"{where}: '{address}' is not an address: {error}") from error


def _requirement(text: str, where: str, folder: Path) -> tuple[str, str]:
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
        bare = _wheel(place[1], place[2] or "", where, folder) + (f" {place[3].strip()}" if place[3] else "")
    try:
        parsed = Requirement(bare)
    except (InvalidRequirement, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise SifmodError(f"{where}: '{bare}' is not a requirement such as numpy>=1.26: {reason}") from error
    if parsed.url:
        extras = f"[{','.join(sorted(parsed.extras))}]" if parsed.extras else ""
        bare = _wheel(parsed.url, extras, where, folder) + (f" ; {parsed.marker}" if parsed.marker else "")
        if canonicalize_name(Requirement(bare).name) != canonicalize_name(parsed.name):
            raise SifmodError(f"{where}: '{parsed.url}' is the wheel of {Requirement(bare).name}, not of {parsed.name}")
    return " ".join([bare, *(f"--hash={one}" for one in hashes)]), canonicalize_name(parsed.name)


def _wheel(place: str, extras: str, where: str, folder: Path) -> str:
    """Return the requirement for a wheel at an address or in a file."""
    parts = _parts(place, where)
    name = unquote(parts.path).rpartition("/")[2]
    if not name.endswith(".whl"):
        raise SifmodError(f"{where}: '{place}' is not a wheel; {_ONLY_WHEELS}")
    if parts.scheme in ("http", "https"):
        url = _place(place, where, folder)
    elif parts.scheme in ("", "file"):
        path = (Path(unquote(parts.path)) if parts.scheme else folder / place).absolute()
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
    path: Path, project: str, optional: Mapping[str, Any], extra: str, *, above: tuple[str, ...], known: set[str]
) -> list[str]:
    """Return the requirements of an extra, with those of other extras that it includes as `PROJECT[EXTRA]`.

    Those in `known`, which gets the names of all, are left out.
    """
    names = {canonicalize_name(name): name for name in optional}
    key = canonicalize_name(extra)
    if key not in names:
        raise SifmodError(f"'{path}' has no extra '{extra}'{perhaps(extra, optional)}: it has {_listed(optional)}")
    if key in above:
        raise SifmodError(f"'{path}': the extra '{extra}' includes itself")
    if len(above) > _DEEPEST:
        raise SifmodError(f"'{path}': the extra '{extra}' is included by more than {_DEEPEST} extras in a chain")
    if key in known:
        return []
    known.add(key)
    found = []
    for text in _texts(path, optional, names[key]):
        try:
            included = Requirement(text)
        except (InvalidRequirement, RecursionError):
            included = None  # refused with its place later
        if included and canonicalize_name(included.name) == canonicalize_name(project):
            for one in sorted(included.extras):
                found += _of_extra(path, project, optional, one, above=(*above, key), known=known)
        else:
            found.append(text)
    return found


def _of_groups(path: Path, tables: Mapping[str, Any], groups: Sequence[str]) -> list[str]:
    table = _table(path, tables, "dependency-groups")
    for group in groups:
        if canonicalize_name(group) not in map(canonicalize_name, table):
            raise SifmodError(f"'{path}' has no group '{group}'{perhaps(group, table)}: it has {_listed(table)}")
    try:
        size = sum(_size_of_group(table, group, {}) for group in groups)
        found = list(resolve_dependency_groups(table, *groups)) if size <= _MOST else []
    except Exception as error:  # the library's own errors are groups of exceptions
        reason = "; ".join(map(str, getattr(error, "exceptions", [error])))
        raise SifmodError(f"'{path}': [dependency-groups] can't be used: {reason}") from error
    if size > _MOST:
        raise SifmodError(f"'{path}': the groups {', '.join(groups)} have more than {_MOST} requirements")
    return found


def _size_of_group(table: Mapping[str, Any], group: str, known: dict[str, int]) -> int:
    """Return the number of requirements of a group and those that it includes, once for each time.

    A group that includes itself, which the library refuses, counts once.
    """
    name = canonicalize_name(group)
    if name not in known:
        known[name] = 1
        items: Sequence[Any] = next((items for key, items in table.items() if canonicalize_name(key) == name), [])
        inner = (item.get("include-group") if isinstance(item, Mapping) else None for item in items)
        known[name] = sum(_size_of_group(table, one, known) if isinstance(one, str) else 1 for one in inner)
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
            "lock with 'uv export --no-emit-project --format pylock.toml -o pylock.toml', and use --pylock"
        )
