"""A stand-in for the daemon of docker: a socket that answers what an image is, and hands out its archive."""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote


class Daemon(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers on a socket as the Engine API does, as far as sifmod and the container runtimes ask.

    Attributes:
        ids: IDs of images by name and tag.
        archive: the archive of all of them; None if there is none.
        answer: what it answers about images, in place of what the API has; empty for that.
    """

    daemon_threads = True

    def __init__(self, path: Path, ids: dict[str, str], archive: Path | None) -> None:
        super().__init__(str(path), _Handler)
        self.path, self.ids, self.archive, self.answer = path, ids, archive, b""
        self.saved: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Daemon
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_GET(self) -> None:
        path = unquote(re.sub(r"^/v[\d.]+", "", self.path))
        saved = re.fullmatch(r"/images/(?:(.+)/get|get\?names=(.+))", path)
        asked = re.fullmatch(r"/images/(.+)/json", path)
        name = next(filter(None, (*(saved.groups() if saved else ()), *(asked.groups() if asked else ()))), "")
        found = name if name in self.server.ids.values() else self.server.ids.get(name, "")
        if asked and self.server.answer:
            self._send(self.server.answer)
        elif (saved or asked) and not found:
            self._send(json.dumps({"message": f"No such image: {name}"}).encode(), status=404)
        elif saved and self.server.archive:
            self.server.saved.append(name)
            self._send(self.server.archive.read_bytes(), kind="application/x-tar")
        else:
            self._send(json.dumps({"Id": found}).encode())

    def _send(self, content: bytes, *, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        for key, value in (("API-Version", "1.41"), ("Content-Type", kind), ("Content-Length", str(len(content)))):
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextlib.contextmanager
def daemon(path: Path, ids: dict[str, str], *, archive: Path | None = None) -> Iterator[Daemon]:
    """Yield a daemon that answers on a new socket."""
    with Daemon(path, ids, archive) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
