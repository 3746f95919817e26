"""Pulled and built images, kept below EasyBuild's source path: each only once, and never partial."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Optional

from sifmod.errors import ImageError, SifmodError
from sifmod.fetch.credentials import Credentials, find_credentials, runtime_environment, secrets
from sifmod.fetch.definition import Definition, registries_of
from sifmod.fetch.dockerfile import build_folder, prepare
from sifmod.fetch.local import local_digest, local_source
from sifmod.fetch.registry import Registry, check_login, refusal
from sifmod.fetch.uri import ARCHIVE_SCHEMES, LOCAL_SCHEMES, REGISTRY_SCHEMES, ImageUri
from sifmod.host.builder import find_builder
from sifmod.host.command import Result, follow
from sifmod.host.files import content_of, other_writers, put_in_place, sha256_of, size_of, write_whole
from sifmod.host.runtime import ContainerRuntime
from sifmod.host.striping import stripe_folder
from sifmod.image.sif import check_is_sif
from sifmod.site.settings import Site
from sifmod.text.digest import DIGEST, SHA256
from sifmod.text.progress import QUIET, Progress

# HTTP statuses as runtimes print them: "invalid status code from registry 404 (Not Found)", "StatusCode: 401", "HTTP
# status: 403 Forbidden", "error parsing HTTP 404 response body". A bare number may be anything.
_STATUS = r"(?:status|code|http|registry)\W{{1,2}}{0}\b|\b{0} \(?(?:unauthorized|forbidden|not found)"

_DENIED = re.compile(
    r"unauthorized|authentication required|access (to the resource )?(is )?denied|" + _STATUS.format("40[13]"), re.I
)
_MISSING = re.compile(
    r"(?:manifest|name|repository) (?:is )?(?:unknown|not known)|(?<!file )not found|" + _STATUS.format("404"), re.I
)

# Addresses and names of images in what a runtime prints: ports, tags, digests and words in them do not say what failed.
_NAMES = re.compile(r"\S*/\S*|(?<=reading manifest )\S+(?= in )")

# A process of a build that the kernel killed: of Apptainer, of buildah with chroot, of an OCI runtime.
_KILLED = re.compile(r"signal: killed|exited on killed|exit status 137|out of memory", re.I)

# Lines that are shown where EasyBuild traces its steps: messages of the runtime, and each step of a Dockerfile.
_SAID = re.compile(r"(INFO|WARNING):|(?=(\[\d+/\d+\] )?STEP \d+/\d+:)|(?=Step \d+/\d+ :)")

_POLL = 1  # seconds between looks at the image's size while the runtime prints nothing


@dataclass(frozen=True)
class StoredImage:
    """An image in the store.

    Attributes:
        origin: URI that it was pulled from, or `Definition.origin`.
        digest: its digest in the registry, or its ID on the host that built it, as `sha256:...`; empty if unknown.
        sha256: SHA-256 of the SIF, in hexadecimal.
        size: its size in bytes.
        runtime: version of the runtime that made it.
    """

    origin: str
    digest: str
    sha256: str
    size: int
    runtime: str


@dataclass(frozen=True)
class ImageStore:
    """A folder of images below EasyBuild's source path.

    Attributes:
        folder: the folder.
        runtime: the container runtime that pulls and builds.
        site: the settings of the cluster.
        say: called with one line when a step begins, and with messages of the runtime.
        progress: shows the progress of long steps.
    """

    folder: Path
    runtime: ContainerRuntime
    site: Site
    say: Callable[[str], None]
    progress: Progress = QUIET

    def pull(self, uri: ImageUri, *, again: bool = False) -> tuple[Path, StoredImage]:
        """Return the image of a URI; pull it unless the store has it already.

        Args:
            uri: where the image is.
            again: pull it even if the store has it.

        Raises:
            ImageError: it can't be pulled; the message names the registry or the file, and the remedy.
        """
        target = self.folder / uri.file_name
        with self._lock(target):
            present = None if again else self._present(target, uri.text)
            if present and not self._is_replaced(uri, present):
                self.say(f"{uri.text} was pulled before: {target}")
                return target, present
            plain_http = uri.registry in self.site.insecure_registries
            digest, source = uri.digest, uri.text
            credentials = find_credentials(uri.registry, self.site) if uri.registry else None
            if uri.registry:
                # also where the digest is known: a password goes to the runtime only if the registry may have it
                found = Registry(uri, credentials, self.site).digest()
                digest = digest or found
                source = uri.pinned(digest) if digest else uri.text
            if uri.scheme in LOCAL_SCHEMES:
                digest = local_digest(uri)
            if uri.scheme in ARCHIVE_SCHEMES and not Path(uri.location).is_file():
                raise ImageError(f"there is no archive '{uri.location}': correct image_uri = '{uri.text}'")
            verb = ["build"] if uri.scheme in (*ARCHIVE_SCHEMES, *LOCAL_SCHEMES) else ["pull"]
            flags = ["--no-https"] if plain_http else []
            self.say(f"pulling {uri.text} into {target}")
            with self._partial(target) as partial:
                if uri.scheme in LOCAL_SCHEMES:
                    source = local_source(uri, digest, partial.parent)
                self._runtime([*verb, *flags, str(partial), source], partial, credentials, uri=uri)
                return target, self._keep(partial, target, origin=uri.text, digest=digest)

    def _is_replaced(self, uri: ImageUri, present: StoredImage) -> bool:
        """Return whether a name on this host belongs to another image than the one that the store has of it."""
        if uri.scheme not in LOCAL_SCHEMES or uri.digest:
            return False
        try:
            digest = local_digest(uri)
        except SifmodError:
            return False  # such as on a compute node, after a pull on the login node
        if digest in ("", present.digest):
            return False
        self.say(f"{uri.text} was built again")
        return True

    def build(self, definition: Definition, *, stem: str, again: bool = False) -> tuple[Path, StoredImage]:
        """Return the image of a definition; build it unless the store has it already.

        Args:
            definition: what to build; relative paths in a definition file are relative to its folder.
            stem: start of the image's file name.
            again: build it even if the store has it.

        Raises:
            RuntimeMissingError: nothing on this host builds Dockerfiles.
            ParameterError: a Dockerfile, or a parameter for it, names what is not there.
            ImageError: the build failed; the message has its last lines.
        """
        origin = definition.origin
        target = self.folder / definition.file_name(stem)
        with self._lock(target):
            present = None if again else self._present(target, origin)
            if present:
                self.say(f"{definition.path.name} was built before: {target}")
                return target, present
            self.say(f"building {definition.path.name} into {target}")
            with self._partial(target) as partial:
                if definition.is_dockerfile:
                    self._build_dockerfile(definition, target, partial)
                else:
                    self._build_definition(definition, partial)
                return target, self._keep(partial, target, origin=origin, digest="")

    def _build_definition(self, definition: Definition, partial: Path) -> None:
        flags = ["--no-https"] if self.site.insecure_registries else []
        credentials = self._credentials_for(definition.path, definition.build_args)
        command = ["build", *flags, *definition.build_options, str(partial), str(definition.path)]
        self._runtime(command, partial, credentials, definition=definition)

    def _build_dockerfile(self, definition: Definition, target: Path, partial: Path) -> None:
        """Build with the host's builder, and let the runtime make a SIF of the archive that it writes."""
        builder = find_builder(self.site)
        builder.check()
        with build_folder(builder, self.site, target.with_name(f".{target.name}.build")) as folder:
            prepared = prepare(folder, definition, self.site, self.say)
            environ = folder.environment(runtime_environment(None))
            for command in folder.commands(prepared.options):
                self._run(
                    command,
                    folder.archive,
                    environ=environ,
                    passwords=prepared.passwords,
                    cwd=folder.context,
                    definition=definition,
                    program=builder.name,
                )
            folder.drop_image()
            self.say(f"making the SIF from the image that {builder.name} has built")
            archive = f"{folder.archive_scheme}:{folder.archive}"
            self._runtime(["build", str(partial), archive], partial, None, definition=definition)

    def _credentials_for(self, definition: Path, build_args: Mapping[str, str]) -> Optional[Credentials]:
        """Return what the runtime may log in with while it builds: it would use it at every registry of the file."""
        registries = registries_of(definition, build_args)
        if len(registries) != 1:
            return None
        (registry,) = registries
        insecure = self.site.insecure_registries
        found = None if insecure and registry not in insecure else find_credentials(registry, self.site)
        if found:
            check_login(registry, self.site)
        return found

    @contextlib.contextmanager
    def _lock(self, target: Path) -> Iterator[None]:
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
    def _partial(self, target: Path) -> Iterator[Path]:
        """Yield a temporary path in a private folder beside the target, and remove the folder afterwards."""
        folder = target.parent / f".{target.name}.partial"
        try:
            if folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder)
            else:
                folder.unlink(missing_ok=True)
            folder.mkdir(mode=0o700)
            stripe_folder(folder, self.site.stripe, warn=self.say)
        except OSError as error:
            raise ImageError(f"can't make the folder '{folder}' to fetch into: {error.strerror}") from error
        try:
            yield folder / "image.partial"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _present(self, target: Path, origin: str) -> Optional[StoredImage]:
        """Return what is recorded of an image, if it is there and its record can be believed.

        The image itself is compared with the record when it is used.
        """
        record = record_of(target)
        try:
            writers = other_writers(record) or other_writers(record.parent)
            stored = _parsed(content_of(record).decode())
            if stored.origin != origin or target.stat().st_size != stored.size:
                return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        if writers:
            self.say(
                f"{target} was fetched before, but {writers} may change it and its record '{record}': fetching it again"
            )
            return None
        return stored

    def _keep(self, partial: Path, target: Path, *, origin: str, digest: str) -> StoredImage:
        check_is_sif(partial)
        self.say(f"hashing {target.name}")
        try:
            size = partial.stat().st_size
            with self.progress.step(f"hashing {target.name}", size=size) as step:
                sha256 = sha256_of(partial, progress=step.advance)
            stored = StoredImage(origin, digest, sha256, size, self.runtime.version)
            record_of(target).unlink(missing_ok=True)
            put_in_place(partial, target)
            write_whole(record_of(target), json.dumps(asdict(stored), indent=2, sort_keys=True) + "\n")
        except OSError as error:
            raise ImageError(f"storing the image as '{target}' failed: {error.strerror}") from error
        return stored

    def _runtime(
        self,
        arguments: Sequence[str],
        partial: Path,
        credentials: Optional[Credentials],
        *,
        uri: Optional[ImageUri] = None,
        definition: Optional[Definition] = None,
    ) -> None:
        environ = runtime_environment(credentials)
        for suffix, folder in (("TMPDIR", self.site.runtime_tmpdir), ("CACHEDIR", self.site.runtime_cachedir)):
            if folder:
                environ.update({f"{prefix}_{suffix}": folder for prefix in ("SINGULARITY", "APPTAINER")})
        self._run(
            [str(self.runtime.path), *arguments],
            partial,
            environ=environ,
            passwords=[credentials.password] if credentials else [],
            cwd=definition.path.parent if definition else None,
            credentials=credentials,
            uri=uri,
            definition=definition,
        )

    def _run(
        self,
        command: Sequence[str],
        growing: Path,
        *,
        environ: Mapping[str, str],
        passwords: Collection[str],
        cwd: Optional[Path],
        credentials: Optional[Credentials] = None,
        uri: Optional[ImageUri] = None,
        definition: Optional[Definition] = None,
        program: str = "the runtime",
    ) -> None:
        """Run a command of the runtime or the builder, show its progress, and explain its failure.

        Args:
            command: the command.
            growing: the file that it writes.
            environ: its environment.
            passwords: what no message may contain, in addition to the passwords in the environment.
            cwd: folder to run it in; None for the current one.
            credentials: what it logs in with, for a message.
            uri: the image that is pulled.
            definition: what is built.
            program: what it is, for a message.
        """
        passwords = {*secrets(), *passwords}
        title = _title(uri, definition)
        with self.progress.step(title) as step:
            written = 0

            def redacted(text: str) -> str:
                for secret in passwords:
                    text = text.replace(secret, "***")
                return text

            def on_line(line: str) -> None:
                line = redacted(line)
                if line.strip():
                    step.tell(line.strip())
                    said = _SAID.match(line)
                    if said:
                        self.say(line[said.end() :].strip())

            def on_silence() -> None:
                nonlocal written
                size = size_of(growing)
                step.advance(size - written)
                written = size

            # the processes of a RUN outlive a builder that is ended, and would write on into a folder to be removed
            done = follow(
                command,
                on_line=on_line,
                on_silence=on_silence,
                silence=_POLL,
                cwd=cwd,
                env=environ,
                own_session=definition is not None and definition.is_dockerfile,
            )
        if done.status:
            lines = [line for line in redacted(done.stdout).splitlines() if line.strip()]
            explained = _explanation(
                done.status, lines, self.site, credentials, uri=uri, definition=definition, program=program
            )
            raise ImageError(explained)


def _title(uri: Optional[ImageUri], definition: Optional[Definition]) -> str:
    return f"pulling {uri.text}" if uri else f"building {definition.path.name}" if definition else "the runtime"


def _parsed(text: str) -> StoredImage:
    """Parse a record into narrow types.

    Raises:
        ValueError, TypeError, KeyError: the text is not a record.
    """
    data = json.loads(text)
    origin, digest, sha256, runtime = (str(data[key]) for key in ("origin", "digest", "sha256", "runtime"))
    size = data["size"]
    if type(size) is not int or not SHA256.fullmatch(sha256):
        raise ValueError("the size or the SHA-256 is not valid")
    if (digest and not DIGEST.fullmatch(digest)) or not (runtime.isprintable() and len(runtime) < 200):
        raise ValueError("the digest or the version is not valid")
    return StoredImage(origin, digest, sha256, size, runtime)


def record_of(target: Path) -> Path:
    """Return the path of the record that the store keeps of an image."""
    return target.with_name(target.name + ".json")


def _explanation(
    status: int,
    lines: Sequence[str],
    site: Site,
    credentials: Optional[Credentials],
    *,
    uri: Optional[ImageUri] = None,
    definition: Optional[Definition] = None,
    program: str,
) -> str:
    """Return the message for a runtime or a builder that failed: what happened, where, and the remedy."""
    text = "\n".join(lines)
    what = _title(uri, definition)
    last = Result(status, text, "").last_lines
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL) or _KILLED.search(text):
        return (
            f"{what} was killed, most likely because this node ran out of memory. Run eb in a job on a compute node, "
            "or set 'runtime_tmpdir' in the site file to a folder that is not in memory"
        )
    if re.search(r"no space left on device|disk quota exceeded", text, re.I):
        return (
            f"{what} ran out of space. Set 'runtime_tmpdir' and 'runtime_cachedir' in the site file (or "
            f"SIFMOD_RUNTIME_TMPDIR and SIFMOD_RUNTIME_CACHEDIR) to folders with more space, or run eb in a job on a "
            f"compute node that has it; {program} printed: {last}"
        )
    if uri and uri.scheme in REGISTRY_SCHEMES:
        said = _NAMES.sub("", text)
        if _DENIED.search(said):
            return refusal(uri, site, credentials)
        if _MISSING.search(said):
            name = f"the digest {uri.digest}" if uri.digest else f"the tag '{uri.tag}'"
            return (
                f"the registry {uri.registry} has no image {uri.repository} with {name}: correct "
                f"image_uri = '{uri.text}'"
            )
        if re.search(r"server gave HTTP response to HTTPS client", text):
            return (
                f"the registry {uri.registry} uses plain HTTP. To allow that, add it to 'insecure_registries' in the "
                "site file"
            )
    if definition and re.search(r"server gave HTTP response to HTTPS client", text):
        return (
            f"{what} failed: a registry uses plain HTTP. To allow that, add it to 'insecure_registries' in the site "
            f"file; for a Dockerfile, all of its registries must be there. {program} printed: {lines[-1]}"
        )
    if re.search(r"no such host|connection refused|i/o timeout|network is unreachable|deadline exceeded", text, re.I):
        host = (uri.registry or uri.text) if uri else "a server"
        return f"{what} failed: {host} can't be reached from here; {program} printed: {lines[-1] if lines else ''}"
    return f"{what} failed with exit status {status}; {program}'s last lines: {last}"
