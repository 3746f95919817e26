"""A build of a Dockerfile: its folder, its context, its base images by digest, and the logins for them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Optional

from sifmod.container.dockerfile import Dockerfile
from sifmod.errors import ImageError, ParameterError
from sifmod.fetch.credentials import Credentials, find_all_credentials, login_file
from sifmod.fetch.definition import Definition
from sifmod.fetch.registry import Registry
from sifmod.fetch.uri import ImageUri
from sifmod.host.builder import BuildFolder, ImageBuilder
from sifmod.host.files import copy_below
from sifmod.host.writing import write_whole
from sifmod.site.settings import Site

_PREFIX = "sifmod-build-"


@contextlib.contextmanager
def build_folder(builder: ImageBuilder, site: Site, mark: Path) -> Iterator[BuildFolder]:
    """Yield a new folder in the site's temporary folder, and remove it afterwards."""
    try:
        if mark.is_symlink():
            _remove_leftover(builder, mark.readlink())
            mark.unlink()
        folder = BuildFolder(builder, Path(tempfile.mkdtemp(prefix=_PREFIX, dir=site.runtime_tmpdir or None)))
    except OSError as error:
        raise ImageError(
            f"can't make a folder for the build ({error}): set 'runtime_tmpdir' in the site file, or "
            "SIFMOD_RUNTIME_TMPDIR, to a folder that exists and that you may write to"
        ) from error
    try:
        mark.symlink_to(folder.path)
        yield folder
    finally:
        with contextlib.suppress(OSError):  # what can't be removed now, the next build finds by the mark
            folder.remove()
            mark.unlink(missing_ok=True)


def _remove_leftover(builder: ImageBuilder, path: Path) -> None:
    """Remove the folder of a build that was killed; a link of somebody else must not name another one."""
    with contextlib.suppress(FileNotFoundError):
        if path.name.startswith(_PREFIX) and path.lstat().st_uid == os.geteuid() and not path.is_symlink():
            BuildFolder(builder, path).remove()


@dataclass(frozen=True)
class Preparation:
    """What a builder needs beside the files in its folder: options, and the passwords that no message may contain."""

    options: tuple[str, ...]
    passwords: frozenset[str]


def prepare(
    folder: BuildFolder, definition: Definition, site: Site, say: Callable[[str], None], *, origin: str
) -> Preparation:
    """Fill the folder of a build: the context, the logins, and the Dockerfile with its base images by their digests."""
    try:
        copied = _copied(definition, folder.context)
        if copied.origin != origin:
            raise ImageError(f"what '{definition.path}' is built of was changed at the same time: start eb again")
        text = copied.path.read_text(encoding="utf-8", errors="surrogateescape")
        dockerfile = Dockerfile(definition.path.name, text, definition.build_args)
        dockerfile.check(target=definition.target, files=copied.context)
        if dockerfile.heredoc and not folder.knows_heredocs():
            raise ParameterError(
                "definition",
                definition.path.name,
                f"{dockerfile.heredoc}: {folder.builder.path} takes the lines of a heredoc for instructions. Put them "
                "into a file, copy that and name it in definition_files, or set 'image_builder' to a newer builder",
            )
        if dockerfile.mount and not folder.knows_mounts():
            raise ParameterError(
                "definition",
                definition.path.name,
                f"{dockerfile.mount}: {folder.builder.path} knows mounts only with BuildKit. Install docker's plugin "
                "buildx (docker before 23: export DOCKER_BUILDKIT=1), or set 'image_builder' to buildah or podman",
            )
        uris = {written: _uri(reference) for written, reference in dockerfile.images.items()}
        registries = frozenset(uri.registry if uri else "" for uri in uris.values())
        credentials = find_all_credentials(registries, site)
        references = {
            written: _reference(uri, credentials, site, say, written=written) for written, uri in uris.items() if uri
        }
        folder.dockerfile.write_text(dockerfile.as_built(references), encoding="utf-8", errors="surrogateescape")
        write_whole(folder.logins, login_file(credentials), mode=0o600)
    except OSError as error:
        raise ImageError(f"the build of '{definition.path}' can't be prepared: {error}") from error
    options = definition.build_options
    # the option holds for all registries, so that one that speaks TLS is never asked without
    if registries and registries <= set(site.insecure_registries) and folder.builder.has_tls_option:
        options += ("--tls-verify=false",)
    return Preparation(options, frozenset(one.password for one in credentials.values()))


def _copied(definition: Definition, folder: Path) -> Definition:
    """Return the definition in a new folder, with copies of its files."""
    folder.mkdir(mode=0o700)
    for name, path in definition.context.items():
        copy_below(path.parent, path.name, folder / name)
    files = tuple(folder / path.name for path in definition.files)
    return replace(definition, path=folder / definition.path.name, files=files)


def _uri(reference: str) -> Optional[ImageUri]:
    with contextlib.suppress(ValueError):
        return ImageUri.parse(f"docker://{reference}") if reference else None
    return None


def _reference(
    uri: ImageUri, credentials: dict[str, Credentials], site: Site, say: Callable[[str], None], *, written: str
) -> str:
    """Return the whole reference of a base image, by its digest if the registry can be reached from here."""
    current = Registry(uri, credentials.get(uri.registry), site, written=f"{written} in the Dockerfile").digest()
    digest = uri.digest or current
    if not digest:
        return f"{uri.registry}/{uri.repository}:{uri.tag}"
    if not uri.digest:
        say(f"{written} is {uri.pinned(digest).partition('//')[2]}")
    return uri.pinned(digest).partition("//")[2]
