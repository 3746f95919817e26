"""The commands of a runtime or a builder that make an image: what is shown of them, and why they failed."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from sifmod.errors import ImageError
from sifmod.fetch.credentials import Credentials, secrets
from sifmod.fetch.definition import Definition
from sifmod.fetch.registry import refusal
from sifmod.fetch.uri import REGISTRY_SCHEMES, ImageUri
from sifmod.host.command import Result, follow, work_of_children
from sifmod.host.files import size_of
from sifmod.site.settings import Site
from sifmod.text.progress import Progress, Step

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

_PLAIN_HTTP = "server gave HTTP response to HTTPS client"
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)
_UNREACHED = re.compile(r"no such host|connection refused|i/o timeout|network is unreachable|deadline exceeded", re.I)

# A process of a build that the kernel killed: of Apptainer, of buildah with chroot, of an OCI runtime, of docker's two.
_KILLED = re.compile(
    r"signal: killed|exited on killed|exit (?:status|code):? 137|non-zero code: 137|out of memory", re.I
)

# Lines that are shown where EasyBuild traces its steps: messages of the runtime, and each step of a Dockerfile.
_SAID = re.compile(r"(INFO|WARNING):|(?=(\[\d+/\d+\] )?STEP \d+/\d+:)|(?=Step \d+/\d+ :)")

_POLL = 1  # seconds between looks at the image's size while the runtime prints nothing
# A pull is ended that has read and written less than this many bytes in so many seconds: it would keep others waiting.
_LEAST_WORK = 4096
_STALLED = 600


@dataclass(frozen=True)
class Making:
    """An image that is pulled from a URI or built of a definition; `say` gets what EasyBuild traces of its steps."""

    site: Site
    say: Callable[[str], None]
    progress: Progress
    uri: Optional[ImageUri] = None
    definition: Optional[Definition] = None

    @property
    def title(self) -> str:
        """What is done, for messages."""
        if self.uri:
            return f"pulling {self.uri.text}"
        return f"building {self.definition.path.name}" if self.definition else "the runtime"

    def run(
        self,
        command: Sequence[str],
        growing: Path,
        *,
        environ: Mapping[str, str],
        passwords: Collection[str],
        cwd: Optional[Path],
        credentials: Optional[Credentials] = None,
        program: str = "the runtime",
    ) -> None:
        """Run a command of the runtime or the builder, show its progress, and explain its failure.

        The progress is the size of the file that grows. No message contains `passwords`, or the passwords in the
        environment; it names what the program is, and the credentials that it logs in with.
        """
        with self.progress.step(self.title) as step:
            watch = _Watch(self, step, growing, {*secrets(), *passwords})
            # the processes of a RUN outlive a builder that is ended, and would write on into a folder to be removed
            done = follow(
                command,
                on_line=watch.on_line,
                on_silence=watch.on_silence,
                silence=_POLL,
                cwd=cwd,
                env=environ,
                own_session=self.definition is not None and self.definition.is_dockerfile,
            )
        if done.status:
            lines = [line for line in watch.redacted(done.stdout).splitlines() if line.strip()]
            raise ImageError(self._explanation(done.status, lines, credentials, program))

    def _explanation(self, status: int, lines: Sequence[str], credentials: Optional[Credentials], program: str) -> str:
        """Return the message for a runtime or a builder that failed: what happened, where, and the remedy."""
        text, what, uri = "\n".join(lines), self.title, self.uri
        last = Result(status, text, "").last_lines
        if status in (-signal.SIGKILL, 128 + signal.SIGKILL) or _KILLED.search(text):
            return (
                f"{what} was killed, most likely because this node ran out of memory. Run eb in a job on a compute "
                "node, or set 'runtime_tmpdir' in the site file to a folder that is not in memory"
            )
        if _NO_SPACE.search(text):
            return (
                f"{what} ran out of space. Set 'runtime_tmpdir' and 'runtime_cachedir' in the site file (or "
                "SIFMOD_RUNTIME_TMPDIR and SIFMOD_RUNTIME_CACHEDIR) to folders with more space, or run eb in a job on "
                f"a compute node that has it; {program} printed: {last}"
            )
        if uri and uri.scheme in REGISTRY_SCHEMES:
            said = _NAMES.sub("", text)
            if _DENIED.search(said):
                return refusal(uri, self.site, credentials)
            if _MISSING.search(said):
                name = f"the digest {uri.digest}" if uri.digest else f"the tag '{uri.tag}'"
                return (
                    f"the registry {uri.registry} has no image {uri.repository} with {name}: correct "
                    f"image_uri = '{uri.text}'"
                )
            if _PLAIN_HTTP in text:
                return (
                    f"the registry {uri.registry} uses plain HTTP. To allow that, add it to 'insecure_registries' in "
                    "the site file"
                )
        if self.definition and _PLAIN_HTTP in text:
            return (
                f"{what} failed: a registry uses plain HTTP. To allow that, add it to 'insecure_registries' in the "
                f"site file; for a Dockerfile, all of its registries must be there. {program} printed: {lines[-1]}"
            )
        if _UNREACHED.search(text):
            host = (uri.registry or uri.text) if uri else "a server"
            return f"{what} failed: {host} can't be reached from here; {program} printed: {lines[-1] if lines else ''}"
        return f"{what} failed with exit status {status}; {program}'s last lines: {last}"


class _Watch:
    """What is shown of a command while it runs: its lines, without passwords, and the size of the file that grows."""

    def __init__(self, making: Making, step: Step, growing: Path, passwords: Collection[str]) -> None:
        self._making, self._step, self._growing, self._passwords = making, step, growing, passwords
        self._written = 0
        self._stall = _Stall(work_of_children())

    def redacted(self, text: str) -> str:
        for password in self._passwords:
            text = text.replace(password, "***")
        return text

    def on_line(self, line: str) -> None:
        line = self.redacted(line)
        if line.strip():
            self._step.tell(line.strip())
            said = _SAID.match(line)
            if said:
                self._making.say(line[said.end() :].strip())

    def on_silence(self) -> None:
        size = size_of(self._growing)
        self._step.advance(size - self._written)
        self._written = size
        waited = self._stall.seconds(work_of_children()) if self._making.uri else 0
        if waited > _STALLED:
            raise ImageError(
                f"{self._making.title}: nothing has arrived for {waited:.0f} seconds, so it was ended. Try again "
                "later, or from a node with another way to the network"
            )
        if waited > _STALLED / 10:
            self._step.tell(f"nothing has arrived for {waited:.0f} seconds")


class _Stall:
    """How long a command has done nothing, from the bytes that it has read and written; 0 where these are not known."""

    def __init__(self, work: Optional[int]) -> None:
        self._work, self._since = work, time.monotonic()

    def seconds(self, work: Optional[int]) -> float:
        if self._work is None or work is None or abs(work - self._work) >= _LEAST_WORK:
            self._work, self._since = work, time.monotonic()
        return time.monotonic() - self._since
