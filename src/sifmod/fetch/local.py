"""Images that were built on this host: in the daemon of docker, and in the storage of buildah and podman."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import urllib.parse
from pathlib import Path
from typing import Any

from sifmod.errors import ImageError, RuntimeMissingError
from sifmod.fetch.uri import DOCKER_DAEMON, ImageUri
from sifmod.host.command import LOOK, first_on_path, run
from sifmod.text.digest import DIGEST, SHA256
from sifmod.text.quoting import shell

# What reads the storage, and its words for the ID of an image (buildah-inspect(1), podman-image-inspect(1)).
_READERS = {
    "buildah": ("inspect", "--type", "image", "--format", "{{.FromImageID}}"),
    "podman": ("image", "inspect", "--format", "{{.Id}}"),
}
_SOCKET = "/var/run/docker.sock"
_LONGEST_ANSWER = 16 << 20  # bytes; what the daemon knows of one image are some thousand


def local_digest(uri: ImageUri) -> str:
    """Return the ID of an image that was built on this host, as `sha256:...`, the digest of its configuration.

    It is empty if the daemon of docker is on another host, which only the container runtime asks.

    Raises:
        ImageError: there is no such image, or the daemon or the storage can't be read.
        RuntimeMissingError: nothing on this host reads the storage.
    """
    return _daemon_digest(uri) if uri.scheme == DOCKER_DAEMON else _storage_digest(uri)


def local_source(uri: ImageUri, digest: str, folder: Path) -> str:
    """Return the image for the container runtime.

    The runtimes read a daemon themselves, but no storage: from there an archive is written.
    """
    if uri.scheme == DOCKER_DAEMON:
        return f"{uri.scheme}:{digest or _name(uri)}"
    reader, archive = _reader(uri), folder / "image.tar"
    done = run([reader, "push", "--format", "oci", digest.partition(":")[2], f"oci-archive:{archive}:image"])
    if done.status:
        raise ImageError(
            f"writing {uri.text} as an archive into '{folder}' failed; {reader.name}'s last lines: {done.last_lines}"
        )
    return f"oci-archive:{archive}"


def _name(uri: ImageUri) -> str:
    return f"{uri.repository}:{uri.tag}"


def _missing(uri: ImageUri, where: str, look: str) -> ImageError:
    what = f"image with the ID {uri.digest}" if uri.digest else f"image {_name(uri)}"
    again = ", or it was built again and has another ID" if uri.digest else ""
    return ImageError(f"{where} has no {what}{again}: see '{look}', and correct image_uri = '{uri.text}'")


def _storage_digest(uri: ImageUri) -> str:
    reader = _reader(uri)
    wanted = uri.digest.partition(":")[2] or _name(uri)
    done = run([reader, *_READERS[reader.name], wanted], time_limit=LOOK)
    digest = done.stdout.strip().rpartition("sha256:")[2]
    if done.status == 0 and SHA256.fullmatch(digest):
        return f"sha256:{digest}"
    if re.search(r"not known|no such image", done.stderr, re.IGNORECASE):
        raise _missing(
            uri, f"your storage of {reader.name}, which other users' images are not in,", f"{reader.name} images"
        )
    raise ImageError(f"{reader.name} can't read {uri.text}; its last lines: {done.last_lines}")


def _reader(uri: ImageUri) -> Path:
    """Return the command that reads the storage."""
    reader = first_on_path(_READERS)
    if reader:
        return reader
    raise RuntimeMissingError(
        f"container runtimes don't read containers-storage, and neither {' nor '.join(_READERS)} is on PATH: load its "
        f"module, or run {shell(f'buildah push {_name(uri)} oci-archive:/path/image.tar')} where the image was built, "
        "and write image_uri = 'oci-archive:/path/image.tar'"
    )


def _daemon_digest(uri: ImageUri) -> str:
    host = os.environ.get("DOCKER_HOST") or f"unix://{_SOCKET}"
    if not host.startswith("unix://"):
        return uri.digest
    path = host.partition("://")[2]
    instead = f"or run 'docker save --output /path/image.tar {_name(uri)}' where the image is"
    instead += ", and write image_uri = 'docker-archive:/path/image.tar'"
    try:
        status, answer = _answer(path, f"/images/{urllib.parse.quote(uri.digest or _name(uri))}/json")
    except PermissionError as error:
        raise ImageError(
            f"you may not use the docker daemon at '{path}': ask the administrators for access, {instead}"
        ) from error
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise ImageError(
            f"no docker daemon answers at '{path}' ({error}): start it, set DOCKER_HOST{_other_sockets()}, {instead}"
        ) from error
    digest = str(answer.get("Id", "")) if isinstance(answer, dict) else ""
    if status == http.client.NOT_FOUND:
        raise _missing(uri, f"the docker daemon at '{path}'", "docker images")
    if status != http.client.OK or not DIGEST.fullmatch(digest):
        raise ImageError(f"the docker daemon at '{path}' answers with the status {status} when asked for {uri.text}")
    return digest


def _other_sockets() -> str:
    """Return sockets of this user's own daemons, for a message."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    sockets = [Path(folder, name) for name in ("docker.sock", "podman/podman.sock")] if folder else []
    existing = [f"unix://{path}" for path in sockets if path.is_socket()]
    return f" (there is {' and '.join(existing)})" if existing else ""


class _Connection(http.client.HTTPConnection):
    """A connection to a socket of this host, for which `http.client` has no class."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=LOOK)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _answer(path: str, resource: str) -> tuple[int, Any]:
    """Return the status and the JSON that the daemon at a socket answers (docs.docker.com/reference/api/engine)."""
    connection = _Connection(path)
    try:
        connection.request("GET", resource)
        response = connection.getresponse()
        return response.status, json.loads(response.read(_LONGEST_ANSWER))
    finally:
        connection.close()
