"""What a Dockerfile or a definition file says of an image that is yet to be built, as parameters of an easyconfig."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Optional

from sifmod.container.definitionfile import ONLY_A_SHELL, Stage, stages_of
from sifmod.container.dockerfile import (
    IGNORE_FILE,
    PREDEFINED_ARGUMENT,
    Dockerfile,
    copied_files,
    expanded,
    is_dockerfile,
    listed_words,
    shell_words,
)
from sifmod.container.gpu import VENDORS
from sifmod.container.spec import DEFAULT_WRAPPERS
from sifmod.container.variables import VARIABLE_NAME
from sifmod.container.wrappers import why_not_a_wrapper
from sifmod.easyconfig.program import named_by
from sifmod.easyconfig.proposal import Proposal, checked_proposal, propose
from sifmod.errors import ImageError, ParameterError, os_errors
from sifmod.fetch.credentials import find_all_credentials
from sifmod.fetch.registry import Registry
from sifmod.fetch.uri import REGISTRY_SCHEMES, ImageUri
from sifmod.host.files import check_below, chosen, content_below, is_text
from sifmod.image.inspection import SIF, Inspection
from sifmod.image.programs import Command, Programs
from sifmod.site.settings import Site
from sifmod.text.package import NAME

_LONGEST = 1 << 17  # bytes of a Dockerfile or a definition file
_DEFINITION = ".def"
# Names of files and of their folders that name no program.
_PLAIN = frozenset(
    {"", "apptainer", "build", "container", "containerfile", "containers", "definition", "docker", "dockerfile"}
    | {"image", "singularity"}
)
# A definition file in the way of Apptainer's documentation, or a Dockerfile's.
_DEFINITION_NAME = re.compile(r"(?:singularity|apptainer|definition)(?:\..+)?", re.IGNORECASE)
# Images of operating systems, and of what programs are built with, after which no module is named.
_SYSTEMS = frozenset(
    {"almalinux", "alpine", "amazonlinux", "archlinux", "busybox", "centos", "debian", "fedora", "leap", "opensuse"}
    | {"oraclelinux", "rockylinux", "scratch", "sles", "tumbleweed", "ubi8", "ubi9", "ubuntu"}
    | {"anaconda3", "gcc", "golang", "mambaforge", "micromamba", "miniconda3", "miniforge3", "node", "python", "rust"}
)
_SHELLS = frozenset({"bash", "csh", "dash", "env", "exec", "fish", "ksh", "sh", "tcsh", "tini", "zsh"})


@dataclass(frozen=True)
class BuildFile:
    """A Dockerfile or a definition file, read and not run."""

    path: Path
    labels: Mapping[str, str] = field(default_factory=dict)  # labels of the image, as far as they can be told
    base: str = ""  # the image that it starts from, as a URI or a path; empty if there is none, or it can't be told
    written: str = ""  # the same as the file writes it
    sources: tuple[tuple[str, str], ...] = ()  # what it copies from its folder, each with its place in the file
    arguments: tuple[str, ...] = ()  # names of build arguments without a value
    command: str = ""  # name of the command that the image starts; empty if it is a shell or unknown

    @property
    def uri(self) -> Optional[ImageUri]:
        """The URI of the base in its registry; None if it is not from one."""
        try:
            uri = ImageUri.parse(self.base)
        except ValueError:
            return None
        return uri if uri.registry else None

    @property
    def reference(self) -> str:
        """What names the image, besides its labels: its file, else its base, else its folder."""
        words = "dockerfile|containerfile|singularity|apptainer|definition"
        name = re.sub(rf"(?i)(^|\.)({words})($|\.)", r"\1\3", self.path.name)
        name = name.strip(".").removesuffix(_DEFINITION)
        base = named_by(self.base)[0].lower()
        if named_by(name)[0].lower() not in _PLAIN:
            return name
        # a vendor's own image is there to build with, too
        if base and base not in _SYSTEMS and not any(re.search(one.hints, base) for one in VENDORS.values()):
            return self.base
        folders = (one.name for one in self.path.resolve().parents)
        return next((one for one in folders if named_by(one)[0].lower() not in _PLAIN), "")


def is_build_file(path: Path) -> bool:
    """Return whether a file is a Dockerfile or a definition file, by its name."""
    is_named = _DEFINITION_NAME.fullmatch(path.name) and not path.name.endswith((".sif", ".eb"))
    is_definition = path.name.endswith(_DEFINITION) or is_named
    return path.is_file() and bool(is_dockerfile(path.name) or is_definition)


def read_build_file(path: Path) -> BuildFile:
    """Return what a file says; ImageError if it can't be read, or is not such a file."""
    what = "Dockerfile" if is_dockerfile(path.name) else "definition file"
    try:
        text = content_below(chosen(path).parent, path.name, longest=_LONGEST).decode()
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ImageError(f"'{path}' is not a {what}: it has more than {_LONGEST >> 10} KiB") from error
        raise ImageError(f"the {what} '{path}' can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ImageError(f"'{path}' is not a {what}: it is not text in UTF-8") from error
    if "\0" in text:
        raise ImageError(f"'{path}' is not a {what}: it is not text")
    found = _read_dockerfile(path, text) if is_dockerfile(path.name) else _read_definition(path, text)
    if found is None:
        begin = "instruction FROM" if is_dockerfile(path.name) else "line 'Bootstrap: ...'"
        raise ImageError(f"'{path}' is not a {what}: it has no {begin}")
    return found


def propose_build(
    found: BuildFile,
    site: Site,
    *,
    name: str = "",
    version: str = "",
    like: Optional[Mapping[str, Any]] = None,
    commands: Sequence[str] = (),
) -> Proposal:
    """Return a proposal for the easyconfig of an image that is built from a file.

    Name and version are those in the file, unless others are given. From `like`, the parameters of a similar
    container's easyconfig, it takes over what still applies. Without `commands`, the command that the image starts
    gets a wrapper.

    Raises:
        ImageError: the file copies what is not in its folder.
        ParameterError: a given value can't be used.
    """
    for command in commands:
        if not NAME.fullmatch(command):
            raise ParameterError("commands", command, "the image is not built yet: give whole names of commands")
    notes: list[str] = []
    files = _files(found, notes)
    named = [Command(one, one, "") for one in commands or filter(None, [found.command])]
    image = Inspection(path=str(found.path), kind=SIF, labels=found.labels)
    proposal = propose(
        image,
        site,
        name=name,
        version=version,
        like=like,
        programs=Programs(commands=tuple(named)),
        origin=found.reference,
    )
    kept = {key: value for key, value in proposal.parameters.items() if key not in ("sources", "checksums")}
    made: dict[str, Any] = {"definition": found.path.name, "gpu": (like or {}).get("gpu") or _gpu(found)}
    if files:
        made["definition_files"] = files
    if found.arguments:
        made["build_args"] = dict.fromkeys(found.arguments, "")
        notes.append(f"build arguments without a value: set {', '.join(found.arguments)} in build_args")
    if not (version or like) and kept["version"] == "1.0":
        notes.append("the version is unknown: give --version")
    notes.append(
        "the image is not built yet: check wrappers, which name its commands, and for a module of its Python say where "
        "that is, in python_prefix or conda_env"
    )
    return checked_proposal(replace(proposal, parameters={**kept, **made}, notes=(*notes, *proposal.notes)))


def base_comment(found: BuildFile, site: Site, notes: list[str]) -> str:
    """Return a comment with the digest of the base image now; empty, with a note, where there should be one."""
    uri = found.uri
    if uri is None:
        if found.written and not found.base:
            notes.append(f"the base image {found.written} depends on a build argument")
        return ""
    if uri.digest:
        return f"Base image: {found.written}"
    written = f"{found.written} in {found.path.name}"
    try:
        credentials = find_all_credentials((uri.registry,), site).get(uri.registry)
        digest = Registry(uri, credentials, site, written=written).digest()
    except ImageError as error:
        notes.append(str(error))
        return ""
    if not digest:
        notes.append(f"{uri.registry} can't be reached from here, so the digest of {found.written} is unknown")
        return ""
    pinned = uri.pinned(digest).partition("://")[2]
    notes.append(
        f"{found.written} may be another image tomorrow: to keep this one, write {pinned} in {found.path.name}"
    )
    return f"Base image: {found.written}, which was {digest}"


def _gpu(found: BuildFile) -> str:
    """Return the vendor of GPUs that the name of the base speaks of; empty if it speaks of none."""
    return next((key for key, one in VENDORS.items() if re.search(one.hints, found.base.lower())), "")


def _files(found: BuildFile, notes: list[str]) -> list[str]:
    """Return the names of the files that are copied; note what can't be told."""
    folder = chosen(found.path).parent
    names: dict[str, None] = {}
    for place, source in found.sources:
        where = f"{found.path.name}, {place}"
        path = PurePosixPath(source)
        if path.is_absolute() and not is_dockerfile(found.path.name):
            raise ImageError(f"{where}: '{source}' is outside of the folder of the file: copy it there")
        path = PurePosixPath(*(part for part in path.parts if part != "/"))
        if ".." in path.parts:
            raise ImageError(f"{where}: '{source}' is outside of the folder of the file: copy it there")
        if not path.parts:
            notes.append(f"{where} copies a folder: add the files that it needs to definition_files")
            continue
        matching = _matching(folder, path.name) if len(path.parts) == 1 else []
        if not matching and (folder / path).exists() and not is_dockerfile(found.path.name):
            with _errors_at(where):
                check_below(folder, path)
            notes.append(f"{where}: '{source}' is copied, but not kept with the installation")
        elif not matching:
            raise ImageError(f"{where}: '{source}' {_why_not(folder / path)}")
        with _errors_at(where):
            for name in matching:
                check_below(folder, name)
        names.update(dict.fromkeys(matching))
    with _errors_at(found.path.name):
        if is_dockerfile(found.path.name):
            lost = []
            for name in (f"{found.path.name}{IGNORE_FILE}", IGNORE_FILE):
                if os.path.lexists(folder / name):
                    check_below(folder, name)
        else:
            lost = [name for name in names if not is_text(folder, name)]
        notes += [f"'{name}' is copied, but not kept with the installation: it is not text" for name in lost]
        names = dict.fromkeys(name for name in names if name not in lost)
    for name in names:
        if name.startswith("."):
            raise ImageError(f"{found.path.name} copies '{name}': eb takes no file with a leading dot. Rename it")
    return [name for name in names if name != found.path.name]


@contextlib.contextmanager
def _errors_at(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ImageError(f"{where}: '{error.filename}' can't be copied: {error.strerror}") from error


def _why_not(path: Path) -> str:
    """Return why eb can't copy what is not a file beside a Dockerfile."""
    if path.is_dir():
        return "is a folder, and a build has only files: pack it as .tar, which ADD unpacks"
    if path.exists():
        return "is in a folder, and a build has only files beside the Dockerfile: put it there"
    return "is not there: put it into the folder of the file, or correct the line"


def _matching(folder: Path, pattern: str) -> list[str]:
    """Return the names of files that match, the file of exactly this name alone."""
    if _is_no_folder(folder / pattern):
        return [pattern]
    if not re.search(r"[*?[]", pattern):
        return []
    with os_errors(ImageError, f"the folder '{folder}' can't be read"):
        return sorted(one.name for one in folder.iterdir() if fnmatchcase(one.name, pattern) and _is_no_folder(one))


def _is_no_folder(path: Path) -> bool:
    return path.exists() and not path.is_dir()


def _command(words: Sequence[str]) -> str:
    """Return the name of the command that some words start, if it can be that of a wrapper."""
    name = PurePosixPath(words[0]).name if words else ""
    usable = name not in (*_SHELLS, *DEFAULT_WRAPPERS, "python3") and not why_not_a_wrapper(name)
    return name if usable else ""


def _read_dockerfile(path: Path, text: str) -> Optional[BuildFile]:
    dockerfile = Dockerfile(path.name, text, {})
    froms = [number for number, one in enumerate(dockerfile.instructions) if one.keyword == "FROM"]
    if not froms:
        return None
    values: dict[str, Optional[str]] = {}
    labels: dict[str, str] = {}
    started: dict[str, list[str]] = {}
    for number, one in enumerate(dockerfile.instructions):
        values.update(dockerfile.argument_values(one, values))
        if one.keyword == "ENV":
            values.update(_pairs(one.rest, values))
        if number > froms[-1]:
            if one.keyword == "LABEL":
                labels.update({key: value for key, value in _pairs(one.rest, values).items() if value})
            if one.keyword in ("ENTRYPOINT", "CMD"):
                listed = listed_words(one.rest)
                started[one.keyword] = shell_words(one.rest) if listed is None else listed
    reference = dockerfile.images.get(dockerfile.base, "")
    lacking = (name for name, has_value in dockerfile.arguments.items() if not has_value)
    return BuildFile(
        path=path,
        labels=labels,
        base=f"docker://{reference}" if reference else "",
        written=dockerfile.base,
        sources=tuple(
            (f"line {one.first + 1}", source) for one in dockerfile.instructions for source in copied_files(one)
        ),
        arguments=_arguments(name for name in lacking if not PREDEFINED_ARGUMENT.fullmatch(name)),
        command=next(filter(None, map(_command, (started.get("ENTRYPOINT", []), started.get("CMD", [])))), ""),
    )


def _arguments(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in found if VARIABLE_NAME.fullmatch(name))


def _pairs(rest: str, values: Mapping[str, Optional[str]]) -> dict[str, str]:
    """Return what LABEL or ENV sets; a value is empty if it can't be told."""
    words = shell_words(rest)
    if words and "=" not in words[0]:  # the old form, with one pair
        return {words[0]: expanded(" ".join(words[1:]), values)}
    return {key: expanded(value, values) for key, _equals, value in (word.partition("=") for word in words)}


def _read_definition(path: Path, text: str) -> Optional[BuildFile]:
    stages = stages_of(text, {})
    if not stages:
        return None
    last = stages[-1]
    is_remote = bool(last.base) and last.agent in REGISTRY_SCHEMES
    started = [re.sub(r"^exec\s+", "", line) for _number, line in last.section("runscript")]
    labels = (line.split(None, 1) for _number, line in last.section("labels"))
    return BuildFile(
        path=path,
        labels={words[0]: words[1] for words in labels if len(words) > 1 and "{{" not in words[1]},
        base=f"{last.agent}://{last.base}" if is_remote else last.base,
        written=last.header.get("from", ""),
        sources=tuple(_definition_sources(path, stages)),
        arguments=_arguments(dict.fromkeys(name for stage in stages for name in stage.unset_arguments)),
        command=_command(shell_words(started[-1])) if started else "",
    )


def _definition_sources(path: Path, stages: Iterable[Stage]) -> Iterator[tuple[str, str]]:
    for stage in stages:
        for number, source in stage.copied():
            if not source:
                raise ImageError(f"{path.name}, line {number}: {ONLY_A_SHELL}")
            yield f"line {number}", source
