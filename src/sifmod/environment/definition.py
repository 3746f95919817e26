"""What all definition files have that add packages to a base image: the base by its digest, and files of the host."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sifmod.easyconfig.newimage import NewImage
from sifmod.errors import SifmodError, os_errors
from sifmod.host.files import sha256_of
from sifmod.text.printable import without_unprintable
from sifmod.text.quoting import shell

# Of the image while it is built: in the unpacked image, because /tmp of the host may be small.
WORK = "/opt/sifmod-environment"

_DEFINITION = """\
# Written by sifmod environment: {comment}
# To change them, run sifmod environment again.
{header}

%setup
    # on the host, where the image that is built lies in $SINGULARITY_ROOTFS
{setup}

%files
    {lock} {work}/{copy}

%post
    export TMPDIR={work}
{check}
{rest}"""


@dataclass(frozen=True)
class Basis:
    """The base image of a definition: its URI with digest, or its file name and SHA-256, and a title for a comment.

    The check is lines for %setup that stop the build if the base is another image.
    """

    title: str
    identity: str
    header: str
    check: tuple[str, ...] = ()

    def setup(self, copied: Mapping[str, str]) -> str:
        """Return the section %setup, which runs on the host."""
        lines = [f'mkdir -p "$SINGULARITY_ROOTFS"{WORK}', *self.check]
        for path, name in copied.items():
            lines.append(f'cp -- {shell(writable(path))} "$SINGULARITY_ROOTFS"{WORK}/{shell(name)}')
        return "\n".join(f"    {line}" for line in lines)


def basis(base: NewImage) -> Basis:
    """Return the base of a definition: an image of a registry by its digest, another one by path and SHA-256."""
    title = re.sub(r"[{}\s]+", " ", without_unprintable(base.origin))
    if base.uri and base.uri.registry and base.uri.digest:
        # Apptainer up to 1.3 takes no reference with both a tag and a digest
        reference = base.uri.pinned(base.uri.digest).partition("://")[2]
        return Basis(title, base.uri.text, f"Bootstrap: {base.uri.scheme}\nFrom: {reference}")
    path = writable(str(base.path.resolve()))
    with os_errors(SifmodError, f"the image '{base.path}' can't be read"):
        sha256 = base.sha256 or sha256_of(base.path)
    sentence = f"{path} is not the image that the packages were locked for: run sifmod environment again"
    check = (
        f"[ \"$(sha256sum <{shell(path)} | cut -d' ' -f1)\" = {sha256} ] || {{",
        f"    echo {shell(sentence)} >&2",
        "    exit 1",
        "}",
    )
    return Basis(title, f"{base.path.name} sha256:{sha256}", f"Bootstrap: localimage\nFrom: {path}", check)


def writable(path: str) -> str:
    """Return a path that can be written in a definition file, where `{{` begins the name of a build argument."""
    if "{{" in path or not path.isprintable():
        raise SifmodError(f"the path {path!r} has characters that a definition file can't hold: rename it")
    return path


def definition_text(
    base: Basis,
    lock: tuple[str, str],
    rest: str,
    *,
    comment: str,
    copied: Mapping[str, str],
    copy: str,
    test: bool = False,
) -> str:
    """Return the text of a definition that adds the packages of a lock to a base."""
    name, content = lock
    text = _DEFINITION.format(
        comment=comment,
        header=base.header,
        setup=base.setup(copied),
        lock=name,
        work=WORK,
        copy=copy,
        check=_unchanged(name, content, copy=copy),
        rest=rest,
    )
    return last_look(text, sections=("%setup", "%files", "%post", *(["%test"] if test else [])))


def _unchanged(name: str, text: str, *, copy: str) -> str:
    """Return lines for %post that stop the build if a file is another one than the definition was written with.

    They also make the file's digest part of the definition, whose own digest names the image.
    """
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    sentence = f"{name} is not the file that this definition was written with: run sifmod environment again"
    return (
        f"    echo '{sha256}  {WORK}/{copy}' | sha256sum -c >/dev/null || {{\n"
        f"        echo {shell(writable(sentence))} >&2\n        exit 1\n    }}"
    )


def last_look(text: str, *, sections: Sequence[str]) -> str:
    """Return the text of a definition if it has these sections only, one stage, and no places of arguments.

    Names and paths in it were checked and quoted. %setup runs on the host, so the whole is looked at once more.
    """
    lines = text.split("\n")
    found = [line.strip() for line in lines if line.strip().startswith("%")]
    stages = sum(line.strip().lower().startswith("bootstrap:") for line in lines)
    if found != [*sections] or stages != 1 or "{{" in text or not all(map(str.isprintable, lines)):
        raise SifmodError(
            "the definition would have more than it is meant to: a name or a path in it is not plain text"
        )
    return text
