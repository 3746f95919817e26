"""The program that an image is for, as a module: its name, version and words, and the commands that get wrappers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Optional

from sifmod.container.wrappers import why_not_a_wrapper
from sifmod.errors import ParameterError
from sifmod.fetch.uri import LOCAL_SCHEMES
from sifmod.image.inspection import MAIN_PACKAGES, Inspection
from sifmod.image.programs import CONDA, Command, Package, Programs
from sifmod.text.package import NAME
from sifmod.text.printable import few, one_line

_MOST_WRAPPERS = 1_000
_MOST_NAMED = 10  # commands in one note
_PYTHON = ("python", "pip")
_OCI = "org.opencontainers.image"
# Labels with the name and the version of a program: of BioContainers, then of OCI. A version without a title is mostly
# that of the base image.
_LABELS = (("software", "software.version"), (f"{_OCI}.title", f"{_OCI}.version"))
_SUMMARIES = ("about.summary", f"{_OCI}.description")
_HOMEPAGES = ("about.home", f"{_OCI}.url", f"{_OCI}.source", f"{_OCI}.documentation")


@dataclass(frozen=True)
class Program:
    """A program as a module, with its wrappers and what was left out. Text is empty if the image does not tell it."""

    name: str
    version: str
    summary: str
    homepage: str
    moduleclass: str
    wrappers: tuple[str, ...]
    notes: tuple[str, ...]


def program_of(
    image: Inspection, programs: Programs, *, reference: str, name: str = "", commands: Sequence[str] = ()
) -> Optional[Program]:
    """Return the program that an image is for; None if the image is for its Python."""
    if not _is_program(image, programs, name):
        return None
    label, label_version = _labelled(image)
    named, named_version = named_by(reference)
    main = _main(programs, [name, label, named])
    package = main.name if main else ""
    notes: list[str] = []
    rivals = [one for one in others_than_python(programs) if one != package]
    if rivals and package and package.lower() not in (one.lower() for one in (name, label, named)):
        notes.append(f"the image has {some_names(rivals)} too: for a module of another name, add --name")
    chosen = _chosen(programs, main, commands)
    if main is None and programs.unread:
        notes.append(f"{programs.unread}: name and version are those of the URI or the file, commands those in PATH")
    module = next(filter(_is_name, (name, label, package, named)), "container")
    texts = [*(image.labels.get(key, "") for key in _SUMMARIES), main.summary if main else ""]
    pages = [*(image.labels.get(key, "") for key in _HOMEPAGES), *_homepages(main)]
    summary = next(filter(None, texts), "")
    return Program(
        name=module,
        version=next(filter(_is_name, (label_version, main.version if main else "", named_version)), ""),
        summary=summary,
        homepage=next((page for page in pages if re.fullmatch(r"https?://[\w./%~+-]{1,200}", page)), ""),
        moduleclass=_moduleclass(main, is_biocontainer=programs.is_biocontainer),
        wrappers=_wrappers(chosen, module, notes),
        notes=tuple(notes),
    )


def others_than_python(programs: Programs) -> tuple[str, ...]:
    """Return the names of the packages that somebody chose, without those that serve other programs."""
    return tuple(one.name for one in programs.packages if not one.is_supporting and one.name not in _PYTHON)


def named_by(reference: str) -> tuple[str, str]:
    """Return the name and the version of a program in a URI or a file name; empty if it has none."""
    last = reference.partition("@")[0].rstrip("/").rpartition("/")[2]
    last = re.sub(rf"^({'|'.join(LOCAL_SCHEMES)}):", "", last)
    last = re.sub(r"\.(sif|simg|img|squashfs|sqsh|tar|tgz|tar\.gz)$", "", last)
    last = re.sub(r"^.*biocontainers[-_]", "", last).partition("--")[0]
    if last.startswith("mulled-v2-"):  # a hash of several packages
        return "", ""
    name, colon, tag = last.partition(":")
    if not colon:
        name, tag = re.fullmatch(r"(.*?)(?:[-_](v?\d.*|latest))?", last, re.DOTALL).groups("")  # type: ignore[union-attr]
    version = re.match(r"v?(\d[A-Za-z0-9_.+]*)", tag)
    return (name if _is_name(name) else "", version[1] if version else "")


def offered(programs: Programs) -> Iterator[tuple[Command, str]]:
    """Yield the commands that can get wrappers, and for each why it gets none; empty if it can get one."""
    for command in _all(programs):
        reason = why_not_a_wrapper(command.name)
        is_name = NAME.fullmatch(command.name)
        yield command, "" if not reason else "the host needs its own" if is_name else "the name can't be a wrapper's"


def _is_program(image: Inspection, programs: Programs, name: str) -> bool:
    python = image.python() if image.default_python else None
    if python is None:
        return True
    if any(python.version_of(package) for package in MAIN_PACKAGES):
        return False
    if name and name.lower() in {*_by_name(programs), *(one.name.lower() for one in programs.commands)}:
        return True
    return bool(image.labels.get("software")) or (programs.is_biocontainer and bool(others_than_python(programs)))


def _labelled(image: Inspection) -> tuple[str, str]:
    """Return the name and the version in the labels; a title of several words is that of a system, such as CentOS."""
    for key, version in _LABELS:
        name = image.labels.get(key, "")
        if _is_name(name) and name.lower() != image.os_id.lower():
            return name, image.labels.get(version, "")
    return "", ""


def _main(programs: Programs, wanted: Iterable[str]) -> Optional[Package]:
    """Return the package that the image is for: one of a wanted name, else the first that is no mere help to others."""
    by_name = _by_name(programs)
    named = (by_name.get(one.lower()) for one in wanted if one)
    others = (one for one in programs.packages if not one.is_supporting)
    return next(filter(None, named), None) or next(others, None)


def _by_name(programs: Programs) -> dict[str, Package]:
    return {one.name.lower(): one for one in programs.packages}


def _all(programs: Programs) -> Iterator[Command]:
    """Yield commands of packages first, then commands of no package; the first of each name."""
    seen: set[str] = set()
    for command in (*(one for package in programs.packages for one in package.commands), *programs.commands):
        if command.name not in seen:
            seen.add(command.name)
            yield command


def _chosen(programs: Programs, main: Optional[Package], patterns: Sequence[str]) -> list[str]:
    """Return the names of the commands that match, or else those of the program and of what was installed beside it."""
    if patterns:
        remedy = "no command of the image matches: see 'sifmod inspect --commands IMAGE'"
        return matching(patterns, [command.name for command in _all(programs)], remedy=remedy)
    packages = [one for one in programs.packages if one is main or not one.is_supporting]
    found = [command.name for one in packages for command in one.commands]
    return [*dict.fromkeys(found)] or [command.name for command in programs.commands]


def matching(patterns: Sequence[str], found: Sequence[str], *, remedy: str) -> list[str]:
    """Return the names of commands that match a pattern; each pattern must match one."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in found):
            raise ParameterError("commands", pattern, remedy)
    return [name for name in found if any(fnmatchcase(name, pattern) for pattern in patterns)]


def usable_names(found: Sequence[str], notes: list[str]) -> list[str]:
    """Return the names that can be those of wrappers; the notes get a sentence for each reason to leave some out."""
    reasons: Mapping[str, str] = {name: why_not_a_wrapper(name) for name in found}
    usable = [name for name in found if not reasons[name]]
    needed = [name for name in found if reasons[name] and NAME.fullmatch(name)]
    odd = [one_line(name) for name in found if reasons[name] and not NAME.fullmatch(name)]
    if needed:
        notes.append(f"no wrapper for {some_names(needed)}: the host needs its own commands of these names")
    if odd:
        notes.append(
            f"no wrapper for {some_names(odd)}: names of wrappers have only letters, digits, '_', '.', '+' and '-'"
        )
    return usable


def _wrappers(found: Sequence[str], module: str, notes: list[str]) -> tuple[str, ...]:
    """Return the names that can be those of wrappers, the module's own first; note the others."""
    usable = usable_names(found, notes)
    if len(usable) > _MOST_WRAPPERS:
        notes.append(
            f"only the first {_MOST_WRAPPERS} of {len(usable)} commands get a wrapper: choose others with --commands"
        )
    if not usable:
        notes.append("no command for a wrapper was found: name the commands of the image in wrappers")
    return tuple(sorted(usable, key=lambda name: name.lower() != module.lower())[:_MOST_WRAPPERS])


def some_names(found: Sequence[str]) -> str:
    """Return the first names of commands, for a note, and how many more there are."""
    return few([one[:60] for one in found], _MOST_NAMED)


def _homepages(main: Optional[Package]) -> list[str]:
    if main is None:
        return []
    has_page = main.manager == CONDA and main.origin
    return [main.homepage, f"https://anaconda.org/{main.origin}/{main.name}" if has_page else ""]


def _moduleclass(main: Optional[Package], *, is_biocontainer: bool) -> str:
    origin = main.origin if main else ""
    return "bio" if origin == "bioconda" or (is_biocontainer and not origin) else "tools"


def _is_name(text: str) -> bool:
    return len(text) <= 100 and bool(NAME.fullmatch(text))
