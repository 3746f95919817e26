"""What all definition files have that add packages to a base image: the base by its digest, and files of the host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sifmod.easyconfig.newimage import NewImage
from sifmod.errors import SifmodError
from sifmod.host.files import sha256_of
from sifmod.text.quoting import shell

# Of the image while it is built: in the unpacked image, because /tmp of the host may be small.
WORK = "/opt/sifmod-environment"


@dataclass(frozen=True)
class Basis:
    """The base image of a definition.

    Attributes:
        title: its name, for a comment.
        identity: its URI with digest, or its file name and SHA-256.
        header: the header of the definition.
        check: lines for %setup that stop the build if the base is another image.
    """

    title: str
    identity: str
    header: str
    check: tuple[str, ...] = ()

    def setup(self, copied: Mapping[str, str]) -> str:
        """Return the section %setup, which runs on the host.

        Args:
            copied: files of the host by path, with their names in `WORK`.

        Raises:
            SifmodError: a path can't be written in a definition file.
        """
        lines = [f'mkdir -p "$SINGULARITY_ROOTFS"{WORK}', *self.check]
        for path, name in copied.items():
            lines.append(f'cp -- {shell(writable(path))} "$SINGULARITY_ROOTFS"{WORK}/{shell(name)}')
        return "\n".join(f"    {line}" for line in lines)


def basis(base: NewImage) -> Basis:
    """Return the base of a definition: an image of a registry by its digest, another one by path and SHA-256.

    Raises:
        SifmodError: the path can't be written in a definition file, or the image can't be read.
    """
    title = re.sub(r"[{}\s]+", " ", base.origin)
    if base.uri and base.uri.registry and base.uri.digest:
        return Basis(title, base.uri.text, f"Bootstrap: {base.uri.scheme}\nFrom: {base.uri.location}")
    path = writable(str(base.path.resolve()))
    try:
        sha256 = base.sha256 or sha256_of(base.path)
    except OSError as error:
        raise SifmodError(f"the image '{base.path}' can't be read: {error.strerror}") from error
    sentence = f"{path} is not the image that the packages were locked for: run sifmod new again"
    check = (
        f"[ \"$(sha256sum <{shell(path)} | cut -d' ' -f1)\" = {sha256} ] || {{",
        f"    echo {shell(sentence)} >&2",
        "    exit 1",
        "}",
    )
    return Basis(title, f"{base.path.name} sha256:{sha256}", f"Bootstrap: localimage\nFrom: {path}", check)


def writable(path: str) -> str:
    """Return a path that can be written in a definition file, where `{{` begins the name of a build argument.

    Raises:
        SifmodError: this one can't.
    """
    if "{{" in path or not path.isprintable():
        raise SifmodError(f"the path {path!r} has characters that a definition file can't hold: rename it")
    return path
