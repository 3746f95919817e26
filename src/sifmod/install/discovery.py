"""What a site file has to say to bind a part of this host into containers: found with ldd, written as a feature."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from sifmod.errors import CommandError, SifmodError
from sifmod.host.command import LOOK, run
from sifmod.image.elf import read_library
from sifmod.image.files import SandboxFiles
from sifmod.text.version import version_order

# Of the C library, and of compilers: the image has its own, which must not be mixed with those of the host.
LEFT_OUT = re.compile(
    r"(ld-linux[\w-]*|linux-vdso|libc|libm|libmvec|libdl|libpthread|librt|libutil|libresolv|libnsl|libanl|libcrypt"
    r"|libnss_\w+|libgcc_s|libstdc\+\+|libgfortran|libquadmath)\.so(\.[\d.]+)?"
)
_LINKED = re.compile(r"^\s*(\S+) => (/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)


@dataclass(frozen=True)
class Discovery:
    """What a site file has to say to bind what was found on this host."""

    feature: str  # the name of the feature
    found: str  # what was found and where, in words
    glibc: str  # the version of glibc that it needs with all that is bound with it
    table: Mapping[str, object]  # the keys and values of the feature
    notes: tuple[str, ...]  # what is to be known besides

    @property
    def text(self) -> str:
        """The lines for a site file."""
        lines = [
            f"Found by `sifmod site discover {self.feature}` on {socket.gethostname()}: {self.found}.",
            f"The image must have glibc {self.glibc} or later.",
            *self.notes,
            f'For all containers, write default_features = ["{self.feature}"] at the top of the site file.',
        ]
        table = tomli_w.dumps({"feature": {self.feature: self.table}}, multiline_strings=False)
        return "".join(f"# {line}\n" for line in lines) + table


def linked(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what a program or library needs beside what images have: the libraries by name, and what the host lacks.

    `ldd` is run on it, which may run code of it.

    Raises:
        SifmodError: `ldd` fails.
    """
    try:
        done = run(["ldd", path], env={**os.environ, "LC_ALL": "C"}, time_limit=LOOK)
    except CommandError as error:
        raise SifmodError(f"the libraries that '{path}' needs are not known: {error}") from error
    if done.status:
        raise SifmodError(f"ldd failed for '{path}': {done.last_lines}")
    found = {name: source for name, source in _LINKED.findall(done.stdout) if not LEFT_OUT.fullmatch(name)}
    return found, tuple(_MISSING.findall(done.stdout))


def cached_libraries(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the libraries in the loader's cache, by name; empty if it can't be asked."""
    try:
        cached = run(["ldconfig", "-p"], env={**environ, "PATH": f"{environ.get('PATH', '')}:/sbin:/usr/sbin"})
    except CommandError:
        return {}
    entries = re.findall(r"^\s*(\S+) \([^)]*\) => (/.+)$", cached.stdout, re.MULTILINE)
    return dict(reversed(entries))  # the first of a name, as for the loader: others are for older hardware


def glibc_of(sources: Iterable[str]) -> str:
    """Return the latest version of glibc that one of these programs and libraries of the host needs; empty if none."""
    files = SandboxFiles(Path("/"))
    read = (read_library(files, source) for source in set(sources) if files.is_file(source))
    return max((library.glibc for library in read if library), key=version_order, default="")
