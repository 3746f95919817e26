"""The definition of an image: the identity of a build, its arguments, and the copy in the installation."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sifmod.artefact import Artefact
from sifmod.container.definitionfile import ONLY_A_SHELL, stages_of
from sifmod.container.dockerfile import IGNORE_FILE, is_dockerfile
from sifmod.errors import ImageError, InstallError, ParameterError
from sifmod.fetch.uri import REGISTRY_SCHEMES, ImageUri
from sifmod.host.files import check_below, content_below, is_text, open_below, sha256_of_stream


def beside(easyconfig: Path, parameter: str, name: object) -> Path:
    """Return the path of a file beside an easyconfig, or raise ParameterError with the name of the parameter."""
    if not isinstance(name, str) or "/" in name or not name.strip(". "):
        raise ParameterError(parameter, name, "give the name of a file beside the easyconfig, without a folder")
    path = easyconfig.resolve().parent / name
    if not path.is_file():
        raise ParameterError(parameter, name, f"there is no such file beside the easyconfig, in '{path.parent}'")
    return path


@dataclass(frozen=True)
class Definition:
    """What an image is built from: a definition file, or a Dockerfile, a stage of it and the files that it may copy.

    A definition file copies what it names. Without a target the last stage is built. A file that can't be read, or is a
    link out of its folder, is an ImageError.
    """

    path: Path
    build_args: Mapping[str, str]
    target: str = ""
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if any(one.parent != self.path.parent for one in self.files):  # a link on the way to the easyconfig was changed
            raise ImageError(f"the folder of '{self.path}' was changed at the same time: start eb again")
        if self.target and not self.is_dockerfile:
            raise ParameterError(
                "build_target", self.target, "only a Dockerfile has stages to choose from: remove this parameter"
            )

    @property
    def is_dockerfile(self) -> bool:
        """Whether it is a Dockerfile."""
        return is_dockerfile(self.path.name)

    @property
    def context(self) -> Mapping[str, Path]:
        """The files of the build context of a Dockerfile, by their names there."""
        own = self.path.with_name(f"{self.path.name}{IGNORE_FILE}")
        ignored = own if os.path.lexists(own) else self.path.with_name(IGNORE_FILE)
        files = {path.name: path for path in (*self.files, self.path)}
        return {**files, IGNORE_FILE: ignored} if os.path.lexists(ignored) else files

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files to keep with an installation: of those in the context of a Dockerfile, the ones that are text."""
        if not self.is_dockerfile:
            return tuple(dict.fromkeys((*self.files, self.path)))
        return tuple(path for path in self.context.values() if _is_text(path))

    @property
    def build_options(self) -> tuple[str, ...]:
        """The options of the command that builds it: its arguments and its stage."""
        arguments = (word for name, value in self.build_args.items() for word in ("--build-arg", f"{name}={value}"))
        return (*arguments, *(("--target", self.target) if self.target else ()))

    @property
    def origin(self) -> str:
        """A text that identifies a build: the file's name and hash, the build arguments, and what it may copy."""
        arguments = json.dumps(dict(self.build_args), sort_keys=True)
        text = f"{self.path.name} sha256:{_looked_at(self.path)[0]} {arguments}"
        if not self.is_dockerfile:
            return text
        looked_at = {name: _looked_at(path) for name, path in self.context.items() if path != self.path}
        others = {name: f"{digest}{' executable' * may_run}" for name, (digest, may_run) in looked_at.items()}
        return f"{text} target={json.dumps(self.target)} context={json.dumps(others, sort_keys=True)}"

    def file_name(self, stem: str) -> str:
        """Return the file name of its image; a changed definition has another name."""
        return f"{stem}-{hashlib.sha256(self.origin.encode()).hexdigest()[:8]}.sif"

    def check_copied(self) -> None:
        """Refuse what the container runtime would copy out of the folder of a definition file through a link.

        A path that is absolute or begins with `..` is plain to see in the file.
        """
        folder = self.path.parent
        for stage in stages_of(_text_of(self.path), self.build_args):
            if stage.agent == "localimage" and (folder / stage.base).is_dir():
                self._check_base(stage.base)
            for number, written in stage.copied():
                where = f"{self.path.name}, line {number}: "
                if not written:
                    raise ImageError(f"{where}{ONLY_A_SHELL}")
                if os.path.normpath(written).startswith(("/", "..")):
                    continue
                # a shell reads brackets in another way than Python
                pattern = re.sub(r"\[[^/]*", "*", written)
                for path in sorted(glob.glob(os.path.join(glob.escape(str(folder)), pattern))):  # noqa: PTH118, PTH207 - as written
                    with _errors_of(Path(path), where):
                        check_below(folder, os.path.relpath(path, folder))

    def _check_base(self, base: str) -> None:
        """Refuse a folder as base image to which a link beside the definition file leads."""
        folder = self.path.parent
        real = Path(os.path.realpath(folder / base))
        if not real.is_relative_to(os.path.realpath(folder)) and not os.path.normpath(base).startswith(("/", "..")):
            raise ImageError(
                f"{self.path.name}: the base image '{base}' is a link to a folder, '{real}': name that folder in the "
                "file if that is meant"
            )


def _looked_at(path: Path) -> tuple[str, bool]:
    """Return the SHA-256 of a file, and whether it is a program."""
    with _errors_of(path), open_below(path.parent, path.name) as stream:
        return sha256_of_stream(stream), bool(os.fstat(stream.fileno()).st_mode & 0o111)


def _is_text(path: Path) -> bool:
    with _errors_of(path):
        return is_text(path.parent, path.name)


def _text_of(path: Path) -> str:
    with _errors_of(path):
        return content_below(path.parent, path.name).decode(errors="replace")


@contextlib.contextmanager
def _errors_of(path: Path, where: str = "") -> Iterator[None]:
    """Report what is wrong with a file beside an easyconfig, which may be in a cloned folder."""
    try:
        yield
    except OSError as error:
        name = error.filename or path
        raise ImageError(f"{where}'{name}', of which the image is built, can't be used: {error.strerror}") from error


def registries_of(definition: Path, build_args: Mapping[str, str]) -> frozenset[str]:
    """Return the registries that the stages of a definition file pull from; one that is not known counts as ''."""
    registries = set()
    for stage in stages_of(_text_of(definition), build_args):
        if stage.agent in REGISTRY_SCHEMES:
            with contextlib.suppress(ValueError):  # of a reference that the runtime refuses too
                registries.add(ImageUri.parse(f"docker://{stage.base}").registry if stage.base else "")
    return frozenset(registries)


def kept_definition(path: Path) -> Artefact:
    """Return the copy of a definition file for an installation; InstallError if the file can't be read."""
    try:
        text = content_below(path.parent, path.name).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or error
        raise InstallError(f"the definition file '{path}' can't be read: {why}") from error
    return Artefact(PurePosixPath("share", "docker-defs", path.name), text)
