"""Dockerfiles: which files are some, and what one says of its base images, stages, arguments and files."""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
import shlex
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Optional

from sifmod.errors import ParameterError
from sifmod.text.suggest import perhaps

IGNORE_FILE = ".dockerignore"

_NAMES = ("dockerfile", "containerfile")

# Build arguments that need no ARG (Dockerfile reference, "Predefined ARGs"), or that builders set themselves.
PREDEFINED_ARGUMENT = re.compile(r"(?i:(?:https?|ftp|no|all)_proxy)|(?:TARGET|BUILD|SOURCE)[A-Z_]+")

_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_HEREDOC = re.compile(r"(?:^|\s)\d*<<(-?)([\"']?)([A-Za-z_]\w*)\2(?=\s|$)")
_WITH_HEREDOCS = ("RUN", "COPY", "ADD")
_FIELDS = {"src": "source", "dst": "target", "destination": "target"}  # of --mount: other names
_TARGET = re.compile(r"(?<=[=,])(?:target|dst|destination)=")
# Transports of buildah and podman whose images are files of this host (containers-transports(5)).
_ON_HOST = re.compile(r"(?:containers-storage|dir|docker-archive|oci|oci-archive|ostree|sif|tarball):(?!\d+/)[^/]*/")
_REMOTE = re.compile(r"\w+://|git@")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?)([-+])([^{}$]*))?\})")


def is_dockerfile(name: str) -> bool:
    """Return whether a file is a Dockerfile (or NAME.Dockerfile, Containerfile ...); others are definition files."""
    name = name.casefold()
    if name.endswith(IGNORE_FILE):
        return False
    return any(name == word or name.endswith(f".{word}") or name.startswith(f"{word}.") for word in _NAMES)


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile."""

    keyword: str  # such as `FROM`, in capitals
    rest: str  # its text after the keyword, on one line
    first: int  # index of its first line in the file
    last: int  # index of its last line, without the lines of its heredocs


@dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile (docs.docker.com/reference/dockerfile) with build arguments, as far as sifmod has to know it."""

    name: str
    text: str
    build_args: Mapping[str, str]

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Its instructions, without comments and the content of heredocs."""
        return tuple(_instructions(self.text.splitlines()))

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Names of its stages in lower case; empty for one without a name."""
        return tuple(words[2].lower() if len(words) > 2 and words[1].lower() == "as" else "" for words in self._froms)

    @cached_property
    def base(self) -> str:
        """The image below its last stage, as written; empty if it has none."""
        bases = [words[0] if words else "" for words in self._froms]
        if not bases:
            return ""
        number = len(bases) - 1
        while bases[number].lower() in self.stages[:number]:
            number = self.stages.index(bases[number].lower())
        return "" if bases[number].lower() == "scratch" else bases[number]

    @cached_property
    def arguments(self) -> Mapping[str, bool]:
        """Names of its build arguments, and whether an instruction ARG has a value for them."""
        found: dict[str, bool] = {}
        for one in self.instructions:
            for name, default in _declared(one):
                found[name] = found.get(name, False) or default is not None
        return found

    @cached_property
    def _froms(self) -> tuple[list[str], ...]:
        return tuple(instruction_words(one.rest) for one in self.instructions if one.keyword == "FROM")

    @cached_property
    def images(self) -> Mapping[str, str]:
        """The images that it starts from or copies from, as written, with their references.

        A reference is empty if it can't be told, because it has a variable that only the builder knows.

        Raises:
            ParameterError: one is a file of this host.
        """
        found = {}
        values: dict[str, Optional[str]] = {}
        stages: list[str] = []
        known: set[str] = {"scratch"}
        numbers: set[str] = set()
        for one in self.instructions:
            if not stages:
                values.update(self.argument_values(one, values))
            is_from = one.keyword == "FROM"
            for written in _images_of(one):
                is_number = not is_from and written in numbers
                if written.lower() not in known and not is_number:
                    # in a stage only the builder's own variables would count, and no builder allows them here
                    found[written] = expanded(written, values if is_from else {})
                self._check_place(written, one, values)
            if is_from:
                stages.append(self.stages[len(stages)])
                known.add(stages[-1])
                numbers.add(str(len(numbers)))
        return found

    def _check_place(self, written: str, one: Instruction, values: Mapping[str, Optional[str]]) -> None:
        """Refuse an image that is a file of this host: what is built of a stranger's Dockerfile would be made of it."""
        names = (match[1] or match[2] for match in _VARIABLE.finditer(written))
        filled = expanded(written, {name: values.get(name) or "" for name in names})
        if _ON_HOST.match(filled):
            raise self._wrong(one, f": '{written}' is a place on this host: name an image of a registry")

    def _wrong(self, one: Instruction, what: str) -> ParameterError:
        return ParameterError("definition", self.name, f"line {one.first + 1}{what}")

    def argument_values(self, one: Instruction, values: dict[str, Optional[str]]) -> dict[str, Optional[str]]:
        """Return the values of the arguments that an instruction declares, if it is ARG; None for one without a value.

        An argument without a value of its own keeps that of what is declared before it, `values`.
        """
        found: dict[str, Optional[str]] = {}
        for name, default in _declared(one):
            value = values.get(name) if default is None else expanded(default, ChainMap(found, values))
            found[name] = self.build_args.get(name, value)
        return found

    @property
    def heredoc(self) -> str:
        """Its first instruction with a heredoc and its line, for a message; empty if it has none."""
        found = (one for one in self.instructions if one.keyword in _WITH_HEREDOCS and _HEREDOC.search(one.rest))
        return next((f"line {one.first + 1}, {one.keyword} {one.rest}" for one in found), "")

    @property
    def mount(self) -> str:
        """Its first RUN with a mount and its line, for a message; empty if it has none."""
        found = ((one, flag) for one in self.instructions if one.keyword == "RUN" for flag in _flags(one))
        return next((f"line {one.first + 1}, RUN {flag}" for one, flag in found if flag.startswith("--mount=")), "")

    @cached_property
    def _folders(self) -> Mapping[int, str]:
        """The working folder at each instruction, by its first line; empty if the file does not tell it."""
        found: dict[int, str] = {}
        of_stages = {"scratch": "/"}
        folder, stage = "", ""
        stages = iter(self.stages)
        for one in self.instructions:
            if one.keyword == "FROM":
                folder, stage = of_stages.get("".join(instruction_words(one.rest)[:1]).lower(), ""), next(stages)
            elif one.keyword == "WORKDIR":
                path = posixpath.join(folder, "".join(shell_words(one.rest)[:1]))
                folder = path if path.startswith("/") and "$" not in path else ""
            if stage:
                of_stages[stage] = folder
            found[one.first] = folder
        return found

    def as_built(self, references: Mapping[str, str]) -> str:
        """Return its text with these references for images, and absolute targets of mounts, as old builders need."""
        lines = self.text.splitlines()
        for one in reversed(self.instructions):
            changes = {
                rf"(?<!\S){re.escape(flag)}(?!\S)": _TARGET.sub(rf"\g<0>{self._folders[one.first]}/", flag)
                for flag in _flags(one)
                if one.keyword == "RUN" and self._folders[one.first] and _is_relative(_mount(flag))
            }
            changes.update(
                (rf"(?<![^\s=,]){re.escape(written)}(?![^\s,])", references[written])
                for written in _images_of(one)
                if references.get(written)
            )
            if changes:
                # the white space in a command counts
                is_run = one.keyword == "RUN"
                text = "\n".join(lines[one.first : one.last + 1]) if is_run else f"{one.keyword} {one.rest}"
                for pattern, instead in changes.items():
                    text = re.sub(pattern, instead.replace("\\", r"\\"), text, count=1)
                lines[one.first : one.last + 1] = text.split("\n")
        return "\n".join(lines) + "\n"

    def check(self, *, target: str, files: Collection[str]) -> None:
        """Refuse what no builder would build of a stage, by default the last one, before one is started.

        Raises:
            ParameterError: it is not a Dockerfile, or a build argument, the stage or a file is not there.
        """
        keywords = [one.keyword for one in self.instructions]
        if "FROM" not in keywords:
            hint = " A definition file has another name, such as image.def" if "BOOTSTRAP:" in keywords else ""
            raise ParameterError("definition", self.name, f"the file has no instruction FROM: correct it.{hint}")
        for name in self.build_args:
            if name not in self.arguments and not PREDEFINED_ARGUMENT.fullmatch(name):
                known = f"it has {', '.join(sorted(self.arguments))}" if self.arguments else "it has none"
                raise ParameterError(
                    "build_args", name, f"{self.name} has no ARG of this name{perhaps(name, self.arguments)}: {known}"
                )
        numbers = tuple(str(number) for number in range(len(self.stages)))
        if target and target.lower() not in (*self.stages, *numbers):
            known = ", ".join(filter(None, self.stages)) or f"its number, 0 to {numbers[-1]}"
            raise ParameterError("build_target", target, f"{self.name} has no stage of this name: use {known}")
        for one in self.instructions:
            self._check_copied(one, files)
            for mount in map(_mount, _flags(one) if one.keyword == "RUN" else ()):
                if _is_relative(mount) and not self._folders[one.first]:
                    raise self._wrong(
                        one,
                        f": the mount target '{mount['target']}' is relative, and only the base image knows to what: "
                        "write an absolute path, or put WORKDIR with one before this line",
                    )

    def _check_copied(self, one: Instruction, files: Collection[str]) -> None:
        for source in copied_files(one):
            path = posixpath.normpath(source.lstrip("/"))
            place = f", {one.keyword} {source if one.keyword != 'RUN' else f'--mount of {source}'}"
            if path == ".." or path.startswith("../"):
                raise self._wrong(
                    one,
                    f"{place}: this is outside of the build context, the easyconfig's folder. Put the file there, and "
                    "name it in definition_files",
                )
            if path in (".", "*") and not set(files) - {self.name, IGNORE_FILE}:
                raise self._wrong(
                    one,
                    f"{place}: the build context has nothing but the Dockerfile, because definition_files names no "
                    "files. Name them there; ADD unpacks a folder that is packed as .tar",
                )
            if path != "." and not any(fnmatch.fnmatchcase(name, path) for name in files):
                raise self._wrong(
                    one,
                    f"{place}: the build context has no such file, only {', '.join(sorted(files))}. Name the file in "
                    "definition_files; ADD unpacks a folder that is packed as .tar",
                )


def _instructions(lines: list[str]) -> Iterator[Instruction]:
    escape = _escape(lines)
    index = 0
    endless: set[tuple[str, str]] = set()  # heredocs whose end was not found: it is not looked for again
    while index < len(lines):
        first = index
        parts: list[str] = []
        while index < len(lines):
            line = lines[index].rstrip()
            index += 1
            if line.lstrip().startswith("#") or (parts and not line):
                continue  # comments and empty lines may be between the lines of an instruction
            parts.append(line[: -len(escape)] if line.endswith(escape) else line)
            if not line.endswith(escape):
                break
        words = " ".join(part.strip() for part in parts).split(None, 1)
        if not words:
            continue
        keyword, rest = words[0].upper(), words[1] if len(words) > 1 else ""
        yield Instruction(keyword, rest, first, index - 1)
        if keyword in _WITH_HEREDOCS:
            for dash, _quote, end in _HEREDOC.findall(rest):
                if (dash, end) not in endless:
                    begin, index = index, _after_heredoc(lines, index, end, tabs=bool(dash))
                    endless.update([(dash, end)] if index == begin else [])


def _escape(lines: list[str]) -> str:
    """Return the escape character, which a directive in the first lines may change."""
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if not match:
            break
        if match[1].lower() == "escape":
            return match[2]
    return "\\"


def _after_heredoc(lines: list[str], index: int, end: str, *, tabs: bool) -> int:
    for number in range(index, len(lines)):
        if (lines[number].lstrip("\t") if tabs else lines[number]) == end:
            return number + 1
    return index


def instruction_words(rest: str) -> list[str]:
    """Return the words of an instruction after its flags."""
    words = rest.split()
    while words and words[0].startswith("--"):
        words.pop(0)
    return words


def shell_words(text: str) -> list[str]:
    """Return the words of a text as a shell would read them; without regard to quotes if one is not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def listed_words(text: str) -> Optional[list[str]]:
    """Return the words of a JSON list, the other form of some instructions; None if the text is not one."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return [str(word) for word in listed] if isinstance(listed, list) else None


def _declared(one: Instruction) -> Iterator[tuple[str, Optional[str]]]:
    """Yield the arguments that an instruction ARG declares, with their values as written; None for one without."""
    for word in shell_words(one.rest) if one.keyword == "ARG" else ():
        name, given, default = word.partition("=")
        yield name, default if given else None


def _images_of(one: Instruction) -> list[str]:
    """Return the images, or stages, that an instruction names."""
    if one.keyword == "FROM":
        return instruction_words(one.rest)[:1]
    if one.keyword in ("COPY", "ADD"):
        return [flag.partition("=")[2] for flag in _flags(one) if flag.startswith("--from=")]
    if one.keyword == "RUN":
        return [mount["from"] for mount in map(_mount, _flags(one)) if mount.get("from")]
    return []


def _flags(one: Instruction) -> list[str]:
    return one.rest.split()[: -len(instruction_words(one.rest)) or None]


def _mount(flag: str) -> dict[str, str]:
    """Return the fields of `--mount=...`, under their first names; empty if it is another flag."""
    name, _equals, text = flag.partition("=")
    fields = (field.partition("=") for field in text.split(",")) if name == "--mount" else ()
    return {_FIELDS.get(key, key): value for key, _equals, value in fields}


def _is_relative(mount: Mapping[str, str]) -> bool:
    return bool(mount.get("target")) and mount["target"][0] not in "/$"


def copied_files(one: Instruction) -> list[str]:
    """Return the files of the build context that COPY, ADD or a mount of RUN names, as far as they can be told."""
    if one.keyword == "RUN":
        mounts = (mount for mount in map(_mount, _flags(one)) if mount.get("type", "bind") == "bind" and mount)
        sources = [mount.get("source", ".") for mount in mounts if not mount.get("from")]
        return [source for source in sources if "$" not in source]
    if one.keyword not in ("COPY", "ADD") or _images_of(one) or _HEREDOC.search(one.rest):
        return []
    words = instruction_words(one.rest)
    text = one.rest[one.rest.find(words[0]) :] if words else ""
    # quotes are removed, but white space within them ends a word
    bare = ["".join(shell_words(word)) for word in words]
    words = (listed_words(text) or []) if text.startswith("[") else bare
    return [word for word in words[:-1] if "$" not in word and not (one.keyword == "ADD" and _REMOTE.match(word))]


def expanded(text: str, values: Mapping[str, Optional[str]]) -> str:
    """Return a text with the values of its variables; empty if one is not known."""
    is_known = True

    def value_of(match: re.Match[str]) -> str:
        nonlocal is_known
        name = match[1] or match[2]
        value = values.get(name)
        is_set = bool(value) if match[3] else value is not None
        if match[4]:
            instead: str = match[5]
            return instead if is_set == (match[4] == "+") else (value or "" if match[4] == "-" else "")
        is_known = is_known and value is not None
        return value or ""

    expanded = _VARIABLE.sub(value_of, text)
    return expanded if is_known and "$" not in expanded else ""
