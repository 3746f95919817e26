from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Optional

import pytest

from sifmod.errors import ImageError
from sifmod.fetch.credentials import Credentials
from sifmod.fetch.registry import Registry
from sifmod.fetch.uri import ImageUri

DIGEST = "sha256:" + "a" * 64


class Server(http.server.ThreadingHTTPServer):
    """A registry in plain HTTP that asks for a token, or for what `challenge` says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.challenge = f'Bearer realm="http://{self.host}/token",service="registry",scope="repository:a:pull"'
        self.logins: list[Optional[str]] = []
        self.token = "good"  # noqa: S105 - of a registry in these tests


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        if self.headers.get("Authorization") == "Bearer good":
            self.send_response(200)
            self.send_header("Docker-Content-Digest", DIGEST)
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", self.server.challenge)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.logins.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"token": self.server.token}).encode())

    def log_message(self, *_words: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def registry() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(server: Server, credentials: Optional[Credentials] = None) -> str:
    return Registry(ImageUri.parse(f"docker://{server.host}/a/b:1"), credentials, plain_http=True).digest()


def test_a_registry_in_plain_http_gives_its_token_in_plain_http(registry: Server) -> None:
    assert ask(registry, Credentials("me", "secret")) == DIGEST
    assert registry.logins == [Credentials("me", "secret").basic]


def test_a_token_that_is_of_no_use_is_a_refusal(registry: Server) -> None:
    registry.token = "bad"  # noqa: S105 - of a registry in this test
    with pytest.raises(ImageError, match="refused access to a/b"):
        ask(registry)


@pytest.mark.parametrize("challenge", ["Negotiate", "", 'Bearer service="x"', 'Bearer realm="ftp://x/"'])
def test_what_can_not_be_answered_is_left_to_the_runtime(registry: Server, challenge: str) -> None:
    registry.challenge = challenge
    assert ask(registry, Credentials("me", "secret")) == ""
    assert registry.logins == []
