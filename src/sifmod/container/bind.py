"""A bind path: a path of the host, and where the container sees it."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace

from sifmod import names
from sifmod.text import pattern

# Commas separate binds, and colons the fields of one bind; a backslash before either makes it part of a path. A
# backslash itself can't be escaped. The runtime accepts one such escape in a bind, in a source that a destination
# follows. `^` separates too (Apptainer user guide, "Bind Paths and Mounts"; ParseBindPath of Apptainer 1.4.5).
_SEPARATOR = re.compile(r"(?<!\\):")
_OPTION = re.compile(r"ro|rw|image-src=/[^\x00-\x1f,:\\]*|id=[0-9]+")


def _unescape(text: str) -> str:
    return re.sub(r"\\([,:])", r"\1", text)


def escape(path: str) -> str:
    r"""Return the path with the characters that separate binds escaped: `a,b:c` becomes `a\,b\:c`."""
    return re.sub(r"([,:])", r"\\\1", path)


UNBINDABLE = (
    "the runtime can't bind paths with backslashes, '^', control characters, a second comma or colon, or white space "
    "beside one of these or at an end; rename it"
)


def is_bindable(path: str) -> bool:
    """Return whether the runtime can bind this path to another path."""
    return not re.search(r"[\\^\x00-\x1f]|\s,|[,:]\s|^\s|\s$|[,:].*[,:]", path)


@dataclass(frozen=True)
class Bind:
    """One bind path of the container runtime."""

    source: str  # absolute path on the host
    destination: str  # absolute path in the container, by default the same as `source`
    options: str = ""  # options of the runtime such as `ro` or `image-src=/`, separated by commas

    @classmethod
    def parse(cls, text: str) -> Bind:
        r"""Parse `source[:destination[:options]]`.

        Colons and commas in a path are escaped with a backslash, as for the runtime.

        Raises:
            ValueError: the text is not a valid bind path; the message says why and what to write.
        """
        fields = _SEPARATOR.split(text)
        if len(fields) > 3:
            raise ValueError("write it as source[:destination[:options]], with colons inside a path as '\\:'")
        if any(re.search(r"(?<!\\),", field) for field in fields[:2]):
            raise ValueError("write one bind path per list element, and commas inside a path as '\\,'")
        options = fields[2] if len(fields) > 2 else ""
        for option in options.split(",") if options else ():
            if not _OPTION.fullmatch(option):
                raise ValueError(f"the runtime has no bind option '{option}': use ro, rw, image-src=PATH or id=NUMBER")
        source = _unescape(fields[0])
        destination = _unescape(fields[1]) if len(fields) > 1 else source
        if not source.startswith("/"):
            raise ValueError(f"the source '{source}' is not an absolute path: begin it with '/'")
        if not destination.startswith("/"):
            raise ValueError(f"the destination '{destination}' is not an absolute path: begin it with '/'")
        for path in (source, destination):
            if not is_bindable(path):
                raise ValueError(f"the path '{path}' can't be bound: {UNBINDABLE}")
        if re.search("[,:]", destination):
            raise ValueError(
                f"the destination '{destination}' has a comma or colon, which the runtime accepts only in sources: "
                "write source:destination with another destination"
            )
        inside = f"{posixpath.normpath(destination).replace('//', '/')}/"
        for path in (names.RUNSCRIPTS, names.USER_SOFTWARE, names.USER_LAYERS):
            if inside.startswith(f"{path}/"):
                raise ValueError(f"sifmod uses the destination '{destination}' itself: choose another destination")
        return cls(source, destination, options)

    @classmethod
    def parse_list(cls, text: str) -> tuple[Bind, ...]:
        """Parse a list of bind paths as in `SINGULARITY_BINDPATH`, separated by commas, as their options are."""
        binds: list[str] = []
        for item in re.split(r"(?<!\\),", text):
            if binds and _OPTION.fullmatch(item):
                binds[-1] += f",{item}"
            elif item:
                binds.append(item)
        return tuple(cls.parse(item) for item in binds)

    @property
    def read_only(self) -> Bind:
        """The same bind, through which nothing can be written."""
        others = [option for option in self.options.split(",") if option not in ("", "ro", "rw")]
        return replace(self, options=",".join([*others, "ro"]))

    @property
    def argument(self) -> str:
        """The bind in the syntax of `--bind` and `SINGULARITY_BINDPATH`."""
        text = escape(self.source)
        if self.destination != self.source or self.options:
            text += ":" + escape(self.destination)
        if self.options:
            text += ":" + self.options
        return text

    def __str__(self) -> str:
        return self.argument


# A match of a pattern with one of these is left out: it could be more than one bind path, or none that the runtime
# accepts.
UNMATCHED = r"[,:\\^\x00-\x1f\x7f]|\s$"


@dataclass(frozen=True)
class BindPattern:
    """The bind paths of all files that match a pattern on the node.

    A match with a comma, a colon, a backslash, `^` or a control character in it, or with white space at its end, is
    left out.
    """

    pattern: str  # absolute path with `*`, `?` or `[...]`
    # directory of the container for them, with a slash at its end; empty for the same paths as on the host
    folder: str = ""
    options: str = ""  # options of the runtime

    @classmethod
    def parse(cls, text: str) -> BindPattern:
        """Parse `pattern[:folder/[:options]]`."""
        bind = Bind.parse(text)
        folder = bind.destination if bind.destination != bind.source else ""
        pattern.check(bind.source)
        if any(name.startswith(".") and pattern.is_wild(name) for name in bind.source.split("/")):
            raise ValueError("a pattern does not match hidden files: write their names")
        if re.search("[,:]", bind.source):
            raise ValueError("a pattern can't have a comma or colon in it: use '?' for it")
        if folder and not folder.endswith("/"):
            raise ValueError(f"a pattern may match several files: end the destination '{folder}' with '/', a directory")
        if pattern.is_wild(folder):
            raise ValueError(f"the destination '{folder}' can't be a pattern")
        return cls(bind.source, folder, bind.options)

    @property
    def argument(self) -> str:
        """The bind as in a site file."""
        folder = self.folder or (self.pattern if self.options else "")
        return ":".join(filter(None, (self.pattern, folder, self.options)))

    def __str__(self) -> str:
        return self.argument


def is_pattern(text: str) -> bool:
    """Return whether the source of a bind path is a pattern."""
    return pattern.is_wild(_SEPARATOR.split(text)[0])
