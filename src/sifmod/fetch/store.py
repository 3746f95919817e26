"""Pulled and built images, kept below EasyBuild's source path: each only once, and never partial."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from sifmod.errors import ImageError, RuntimeMissingError, SifmodError, os_errors
from sifmod.fetch.credentials import (
    Credentials,
    find_all_credentials,
    find_credentials,
    kept_back,
    runtime_environment,
)
from sifmod.fetch.definition import Definition, registries_of
from sifmod.fetch.dockerfile import build_folder, prepare
from sifmod.fetch.local import local_digest, local_source
from sifmod.fetch.making import Making
from sifmod.fetch.records import StoredImage, record, record_of
from sifmod.fetch.registry import Registry, check_login
from sifmod.fetch.uri import ARCHIVE_SCHEMES, LOCAL_SCHEMES, ImageUri
from sifmod.host.builder import find_builder
from sifmod.host.files import sha256_of
from sifmod.host.runtime import ContainerRuntime
from sifmod.host.writing import private_folder, put_in_place
from sifmod.image.sif import check_is_sif
from sifmod.site.settings import Site
from sifmod.text.progress import QUIET, Progress


@dataclass(frozen=True)
class ImageStore:
    """A folder of images below EasyBuild's source path; `say` gets messages of the runtime too."""

    folder: Path
    runtime: ContainerRuntime
    site: Site
    say: Callable[[str], None]
    progress: Progress = QUIET

    def pull(self, uri: ImageUri, *, again: bool = False, sha256: str = "") -> tuple[Path, StoredImage]:
        """Return the image of a URI; pull it unless the store has it already, or even then (`again`).

        The store has images that this user has fetched, and, with the SHA-256 of `checksums`, others: the installer
        compares it.

        Raises:
            ImageError: it can't be pulled; the message names the registry or the file, and the remedy.
        """
        target = self.folder / uri.file_name
        with self._lock(target), _naming_checksums(target, again=again):
            present = None if again else self._present(target, uri.text, sha256)
            if present and not self._is_replaced(uri, present):
                self.say(f"{uri.text} was pulled before: {target}")
                return target, present
            plain_http = uri.registry in self.site.insecure_registries
            digest, source = uri.digest, uri.text
            credentials = find_credentials(uri.registry, self.site) if uri.registry else None
            if uri.registry:
                # also where the digest is known: a password goes to the runtime only if the registry may have it
                current = Registry(uri, credentials, self.site).digest()
                digest = digest or current
                source = uri.pinned(digest) if digest else uri.text
            if uri.scheme in LOCAL_SCHEMES:
                digest = local_digest(uri)
            if uri.scheme in ARCHIVE_SCHEMES and not Path(uri.location).is_file():
                raise ImageError(f"there is no archive '{uri.location}': correct image_uri = '{uri.text}'")
            verb = ["build"] if uri.scheme in (*ARCHIVE_SCHEMES, *LOCAL_SCHEMES) else ["pull"]
            flags = ["--no-https"] if plain_http else []
            self.say(f"pulling {uri.text} into {target}")
            with self._partial(target) as (partial, made):
                if uri.scheme in LOCAL_SCHEMES:
                    source = local_source(uri, digest, partial.parent)
                making = Making(self.site, self.say, self.progress, uri=uri)
                self._runtime(making, [*verb, *flags, str(partial), source], partial, credentials)
                return target, self._keep(partial, made, target, origin=uri.text, digest=digest)

    def _is_replaced(self, uri: ImageUri, present: StoredImage) -> bool:
        """Return whether a name on this host belongs to another image than the one that the store has of it."""
        if uri.scheme not in LOCAL_SCHEMES or uri.digest:
            return False
        try:
            digest = local_digest(uri)
        except SifmodError:
            return False  # such as on a compute node, after a pull on the login node
        if not digest or present.digest in ("", digest):
            return False
        self.say(f"{uri.text} was built again")
        return True

    def build(
        self, definition: Definition, *, stem: str, again: bool = False, sha256: str = ""
    ) -> tuple[Path, StoredImage]:
        """Return the image of a definition, as `pull` does for a URI; the stem is for its file name.

        Raises:
            RuntimeMissingError: nothing on this host builds Dockerfiles.
            ParameterError: a Dockerfile, or a parameter for it, names what is not there.
            ImageError: the build failed; the message has its last lines.
        """
        origin = definition.origin
        target = self.folder / definition.file_name(stem)
        with self._lock(target), _naming_checksums(target, again=again):
            present = None if again else self._present(target, origin, sha256)
            if present:
                self.say(f"{definition.path.name} was built before: {target}")
                return target, present
            self.say(f"building {definition.path.name} into {target}")
            with self._partial(target) as (partial, made):
                making = Making(self.site, self.say, self.progress, definition=definition)
                if definition.is_dockerfile:
                    self._build_dockerfile(making, definition, origin, target, partial)
                else:
                    self._build_definition(making, definition, partial)
                return target, self._keep(partial, made, target, origin=origin, digest="")

    def _build_definition(self, making: Making, definition: Definition, partial: Path) -> None:
        definition.check_copied()
        flags = ["--no-https"] if self.site.insecure_registries else []
        credentials = self._credentials_for(definition.path, definition.build_args)
        command = ["build", *flags, *definition.build_options, str(partial), str(definition.path)]
        self._runtime(making, command, partial, credentials)

    def _build_dockerfile(
        self, making: Making, definition: Definition, origin: str, target: Path, partial: Path
    ) -> None:
        """Build with the host's builder, and let the runtime make a SIF of the archive that it writes."""
        builder = find_builder(self.site)
        builder.check()
        with build_folder(builder, self.site, target.with_name(f".{target.name}.build")) as folder:
            prepared = prepare(folder, definition, self.site, self.say, origin=origin)
            environ = folder.environment(runtime_environment(None))
            for command in folder.commands(prepared.options):
                making.run(
                    command,
                    folder.archive,
                    environ=environ,
                    passwords=prepared.passwords,
                    cwd=folder.context,
                    program=builder.name,
                )
            folder.drop_image()
            self.say(f"making the SIF from the image that {builder.name} has built")
            archive = f"{folder.archive_scheme}:{folder.archive}"
            self._runtime(making, ["build", str(partial), archive], partial)

    def _credentials_for(self, definition: Path, build_args: Mapping[str, str]) -> Optional[Credentials]:
        """Return what the runtime may log in with while it builds: it would use it at every registry of the file."""
        registries = registries_of(definition, build_args)
        if len(registries) != 1:
            return None
        (registry,) = registries
        insecure = self.site.insecure_registries
        allowed = not insecure or registry in insecure
        credentials = find_all_credentials(registries, self.site).get(registry) if allowed else None
        if credentials:
            check_login(registry, self.site)
        elif registry and (kept := kept_back(registry)):
            self.say(kept)
        return credentials

    @contextlib.contextmanager
    def _lock(self, target: Path) -> Iterator[None]:
        if target.is_file() and not os.access(target.parent, os.W_OK):
            yield  # another user fetches into this folder
            return
        path = target.parent / f".{target.name}.lock"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # a link that somebody has put there is not followed, and nothing is emptied
            stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "rb")
        except OSError as error:
            if path.is_symlink():
                raise ImageError(f"'{path}' is a symbolic link, and should be a lock file: remove it") from error
            raise ImageError(f"can't write to the source path '{target.parent}': {error.strerror}") from error
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say(f"another install is fetching {target.name}: waiting for it")
                fcntl.flock(stream, fcntl.LOCK_EX)
            except OSError as error:
                raise ImageError(
                    f"the file system of '{target.parent}' does not support file locks ({error.strerror}): set "
                    "EASYBUILD_SOURCEPATH to a folder on another file system"
                ) from error
            yield

    @contextlib.contextmanager
    def _partial(self, target: Path) -> Iterator[tuple[Path, Path]]:
        """Make a private folder beside the target, and remove it afterwards.

        Yield the path in it for a runtime, and the same by which no other file is found.
        """
        folder = target.parent / f".{target.name}.partial"
        with contextlib.ExitStack() as stack:
            with os_errors(ImageError, f"can't make the folder '{folder}' to fetch into"):
                if folder.is_dir() and not folder.is_symlink():
                    shutil.rmtree(folder)
                else:
                    folder.unlink(missing_ok=True)
                made = stack.enter_context(private_folder(folder))
            try:
                yield folder / "image.partial", made / "image.partial"
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _present(self, target: Path, origin: str, sha256: str) -> Optional[StoredImage]:
        """Return what is known of an image in the store; None if it is missing, or may be anybody's."""
        if not target.is_file():
            return None
        try:
            stored, problem = record_of(target, origin), "you have no record of fetching it as it is now"
        except OSError as error:
            stored, problem = None, str(error.strerror)
        if stored or sha256:
            return stored or StoredImage(origin, "", sha256, target.stat().st_size, "")
        self.say(f"'{target}' is fetched again: {problem}")
        return None

    def _keep(self, partial: Path, made: Path, target: Path, *, origin: str, digest: str) -> StoredImage:
        check_is_sif(partial)
        self.say(f"hashing {target.name}")
        with os_errors(ImageError, f"storing the image as '{target}' failed"):
            status = made.stat()
            with self.progress.step(f"hashing {target.name}", size=status.st_size) as step:
                sha256 = sha256_of(made, progress=step.advance)
            stored = StoredImage(origin, digest, sha256, status.st_size, self.runtime.version, status.st_mtime_ns)
            try:
                record(stored)
            except OSError as error:
                self.say(f"the next install fetches this image again, because it can't be recorded: {error.strerror}")
            put_in_place(made, target)
        return stored

    def _runtime(
        self, making: Making, arguments: Sequence[str], partial: Path, credentials: Optional[Credentials] = None
    ) -> None:
        environ = runtime_environment(credentials)
        for suffix, folder in (("TMPDIR", self.site.runtime_tmpdir), ("CACHEDIR", self.site.runtime_cachedir)):
            if folder:
                environ.update({f"{prefix}_{suffix}": folder for prefix in ("SINGULARITY", "APPTAINER")})
        making.run(
            [str(self.runtime.path), *arguments],
            partial,
            environ=environ,
            passwords=[credentials.password] if credentials else [],
            cwd=making.definition.path.parent if making.definition else None,
            credentials=credentials,
        )


@contextlib.contextmanager
def _naming_checksums(target: Path, *, again: bool) -> Iterator[None]:
    """Name the way to use an image in the store that can't be fetched again."""
    try:
        yield
    except (ImageError, RuntimeMissingError) as error:
        if again or not target.is_file():
            raise
        raise type(error)(
            f"{error}. To use '{target}' as it is, write its SHA-256 (see sha256sum) into checksums of the easyconfig"
        ) from error
