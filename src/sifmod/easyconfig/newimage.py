"""The image to write an easyconfig for: a file, or an image pulled to where `eb` looks for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional

from sifmod.eb.space import letter_folder, source_paths
from sifmod.errors import ImageError, ParameterError, os_errors
from sifmod.fetch.credentials import find_credentials
from sifmod.fetch.local import local_digest
from sifmod.fetch.registry import Registry
from sifmod.fetch.store import ImageStore
from sifmod.fetch.uri import LOCAL_SCHEMES, ImageUri, image_uri
from sifmod.host.files import sha256_of
from sifmod.host.runtime import find_runtime
from sifmod.image.inspection import SIF, Inspection, inspect_image, inspect_programs
from sifmod.image.programs import Programs
from sifmod.site.settings import Site
from sifmod.text.printable import is_utf8
from sifmod.text.progress import QUIET, Progress

_WAITING = "sifmod-new"  # folder of the source path for images whose module has no name yet


@dataclass(frozen=True)
class NewImage:
    """A SIF and its contents; the origin is the file name or URI that the user gave. A pulled one has no SHA-256."""

    path: Path
    inspection: Inspection
    origin: str
    sha256: str = ""
    uri: Optional[ImageUri] = None
    programs: Programs = field(default_factory=Programs)

    def settled(self, name: str) -> NewImage:
        """Return the image after a pulled one was moved to where `eb` looks for the images of a module of this name."""
        if self.uri is None or self.path.parent.name != _WAITING:
            return self
        target = source_paths()[0] / letter_folder(name) / self.path.name
        with os_errors(ImageError, f"moving the image '{self.path}' to '{target}' failed"):
            target.parent.mkdir(parents=True, exist_ok=True)
            self.path.replace(target)
        return replace(self, path=target)

    def options_of_eb(self, easyconfig: Path, site: Site) -> tuple[str, ...]:
        """Return the options that `eb` needs to find the image for an easyconfig, quoted for a shell."""
        folder = self.path.absolute().parent
        known = [easyconfig.absolute().parent, *map(Path, site.image_repositories), source_paths()[0]]
        if self.uri or folder.resolve() in [one.resolve() for one in known]:
            return ()
        return (f"--sourcepath={shlex.quote(str(folder))}",)


def names_uri(text: str) -> bool:
    """Return whether a text that names an image is a URI, or is meant to be one, rather than a path."""
    return ":" in text and not Path(text).exists()


def file_image(path: Path, *, say: Callable[[str], None], progress: Progress = QUIET) -> NewImage:
    """Return the image in a file, or raise ImageError; `say` is called with a line before long work."""
    if not is_utf8(path.name):
        raise ImageError(f"the file name '{path.name}' is not UTF-8, so no easyconfig can name it: rename the file")
    inspection = inspect_image(path)
    sha256 = ""
    if inspection.kind == SIF:
        say(f"hashing {path.name}")
        problem = os_errors(ImageError, f"the image '{path}' can't be read")
        with problem, progress.step(f"hashing {path.name}", size=path.stat().st_size) as step:
            sha256 = sha256_of(path, progress=step.advance)
    programs = inspect_programs(path)
    return NewImage(path=path, inspection=inspection, origin=path.name, sha256=sha256, programs=programs)


def pulled_image(
    text: str, site: Site, *, name: str = "", say: Callable[[str], None], progress: Progress = QUIET
) -> NewImage:
    """Return the image of a URI, and what is in it: see `pulled_file`."""
    path, uri = pulled_file(text, site, name=name, say=say, progress=progress)
    return NewImage(path=path, inspection=inspect_image(path), origin=text, uri=uri, programs=inspect_programs(path))


def pulled_file(
    text: str, site: Site, *, name: str = "", say: Callable[[str], None], progress: Progress = QUIET
) -> tuple[Path, ImageUri]:
    """Pull the image of a URI unless it is in EasyBuild's source path already.

    It is kept for the module called `name`, if that is known. `say` is called with a line at the start of each action,
    and with each line of the runtime.

    Returns:
        The path of the SIF, and the URI, pinned to its digest if that is known.

    Raises:
        ImageError: it can't be pulled.
        ParameterError: it is not a URI.
        RuntimeMissingError: there is no container runtime to pull with, or nothing that reads the storage it is in.
    """
    try:
        uri = image_uri(text)
    except ParameterError as error:
        raise ImageError(f"'{text}' is neither a file nor the URI of an image: {error.remedy}") from error
    if not uri.digest and (uri.registry or uri.scheme in LOCAL_SCHEMES):
        is_local = uri.scheme in LOCAL_SCHEMES
        digest = local_digest(uri) if is_local else Registry(uri, find_credentials(uri.registry, site), site).digest()
        uri = uri.with_digest(digest) if digest else uri
    sources = source_paths()[0]
    present = sorted(sources.glob(f"*/*/{uri.file_name}"))
    folder = sources / letter_folder(name) if name else present[0].parent if present else sources / _WAITING
    store = ImageStore(folder=folder, runtime=find_runtime(site), site=site, say=say, progress=progress)
    path, _stored = store.pull(uri)
    return path, uri
