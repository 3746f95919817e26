"""A bind path: what of the host is seen where in the container."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Commas separate binds and colons the fields of one bind; a backslash before either makes it part of a path. Nothing
# escapes a backslash itself (Apptainer user guide, "Bind Paths and Mounts"; seen with Apptainer 1.4.5).
_SEPARATOR = re.compile(r"(?<!\\):")


def _unescape(text: str) -> str:
    return re.sub(r"\\([,:])", r"\1", text)


def escape(path: str) -> str:
    r"""Return the path with the characters that separate binds escaped: `a,b:c` becomes `a\,b\:c`."""
    return re.sub(r"([,:])", r"\\\1", path)


@dataclass(frozen=True)
class Bind:
    """One bind path of the container runtime.

    Attributes:
        source: absolute path on the host.
        destination: absolute path in the container; the same as `source` unless given.
        options: options of the runtime such as `ro` or `image-src=/`, as they are written.
    """

    source: str
    destination: str
    options: str = ""

    @classmethod
    def parse(cls, text: str) -> Bind:
        r"""Read `source[:destination[:options]]`.

        Colons and commas that belong to a path are escaped with a backslash, as for the runtime.

        Args:
            text: one bind path, not a list of them.

        Raises:
            ValueError: the text is no bind path; the message says why and what to write.
        """
        fields = _SEPARATOR.split(text)
        if len(fields) > 3:
            raise ValueError("write it as source[:destination[:options]], with colons inside a path as '\\:'")
        if any(re.search(r"(?<!\\),", field) for field in fields[:2]):
            raise ValueError("write one bind path an element, and commas inside a path as '\\,'")
        source = _unescape(fields[0])
        destination = _unescape(fields[1]) if len(fields) > 1 else source
        if not source.startswith("/"):
            raise ValueError(f"the source '{source}' is not an absolute path: begin it with '/'")
        if not destination.startswith("/"):
            raise ValueError(f"the destination '{destination}' is not an absolute path: begin it with '/'")
        if any(char == "\\" or ord(char) < 32 for char in source + destination):
            raise ValueError("a path with a backslash or a control character can't be bound: rename it")
        return cls(source, destination, fields[2] if len(fields) > 2 else "")

    @property
    def argument(self) -> str:
        """The bind as the runtime reads it in `--bind` and `SINGULARITY_BINDPATH`."""
        text = escape(self.source)
        if self.destination != self.source or self.options:
            text += ":" + escape(self.destination)
        if self.options:
            text += ":" + self.options
        return text

    def __str__(self) -> str:
        return self.argument
