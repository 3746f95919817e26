"""Definition files of the container runtime: the stages of one, their headers, arguments and sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

ONLY_A_SHELL = "write the path that is copied as it is: the runtime gives it to a shell, and '-' begins an option"

_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# Characters of a value: the place of a longer one is left as it is, because many of them would take much memory.
_LONGEST = 1000
# A source of `%files` that the runtime's shell and its `cp` take as it is written, but for patterns.
_PLAIN = r"[^\s\"'\\$`{}()<>;&|\x00-\x1f]"
_SOURCE = re.compile(rf'(?![-~#"])({_PLAIN}+)(?=\s|$)|"(?![-~#])((?:{_PLAIN}| )+)"(?=\s|$)')


@dataclass(frozen=True)
class Stage:
    """A stage of a definition file, read as Apptainer 1.4.5 does (pkg/build/types/parser, internal/pkg/build/args)."""

    text: str  # its part of the file
    first: int  # number of its first line
    build_args: Mapping[str, str]

    @cached_property
    def header(self) -> Mapping[str, str]:
        """The values before its first section, by their keys in lower case; a place without a value stays in them."""
        text = re.split(r"(?m)^[ \t]*%", _filled(self.text, self._values), maxsplit=1)[0]
        text = re.sub(r"\\[ \t]*\r?\n[ \t]*", "", re.sub(r"#.*", "", text))
        pairs = (line.partition(":") for line in text.split("\n"))
        return {key.strip().lower(): value.strip() for key, colon, value in pairs if colon}

    @property
    def agent(self) -> str:
        """Its bootstrap agent in lower case, such as `docker`."""
        return self.header.get("bootstrap", "").lower()

    @property
    def base(self) -> str:
        """What its agent starts from; empty if the header names nothing, or a place there has no value."""
        # only the agent docker uses a registry and a namespace (conveyorPacker_oci.go)
        keys = ("registry", "namespace", "from") if self.agent == "docker" else ("from",)
        base = "/".join(filter(None, (self.header.get(key, "") for key in keys)))
        return "" if "{{" in base else base

    @property
    def unset_arguments(self) -> tuple[str, ...]:
        """Names of its build arguments without a value."""
        return tuple(dict.fromkeys(name for name in _PLACE.findall(self.text) if name not in self._values))

    def section(self, wanted: str) -> Iterator[tuple[int, str]]:
        """Return the lines of a section, such as `labels`, with their numbers; no `files` of another stage."""
        return self._lines(_filled(self.text, self._values), wanted)

    def copied(self) -> Iterator[tuple[int, str]]:
        """Yield what it copies from the host, with the number of the line: paths, or patterns of a shell.

        A source is empty if only a shell could tell it: the runtime's runs commands in it, and expands braces. Without
        a value for a place, there is no build.
        """
        for name in ("files", "appfiles"):
            for number, line in self.section(name):
                match = _SOURCE.match(line)
                if match or not {*_PLACE.findall(line)} & {*self.unset_arguments}:
                    yield number, (match[1] or match[2]) if match else ""

    @cached_property
    def _values(self) -> Mapping[str, str]:
        """Values of arguments by name, which may have places of other arguments themselves."""
        lines = (line.partition("=") for _number, line in self._lines(self.text, "arguments"))
        values = {name.strip(): value.strip() for name, equals, value in lines if equals}
        values.update(self.build_args)
        return {name: _filled(value, values) for name, value in values.items()}

    def _lines(self, text: str, wanted: str) -> Iterator[tuple[int, str]]:
        name = ""
        for number, line in enumerate(text.split("\n"), self.first):
            match = re.match(r"[ \t]*%+(\w+)[ \t]*(.*)", line)
            if match:
                is_of_a_stage = match[1].lower() == "files" and match[2].startswith("from")
                name = "" if is_of_a_stage else match[1].lower()
            elif name == wanted and line.strip() and not line.strip().startswith("#"):
                yield number, line.strip()


def stages_of(text: str, build_args: Mapping[str, str]) -> tuple[Stage, ...]:
    """Return the stages of a definition file, the last one that of the image; none without a bootstrap agent."""
    stages = []
    first = 1
    for part in re.split(r"(?im)^(?=bootstrap:)", text):
        stages.append(Stage(part, first, build_args))
        first += part.count("\n")
    return tuple(stage for stage in stages if "bootstrap" in stage.header)


def _filled(text: str, values: Mapping[str, str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = values.get(match[1], match[0])
        return value if len(value) <= _LONGEST else match[0]

    return _PLACE.sub(value_of, text)
