import http.server
import json
import threading

import pytest

from sifmod.errors import ImageError
from sifmod.fetch.credentials import Credentials
from sifmod.fetch.registry import Registry
from sifmod.fetch.uri import ImageUri

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def registry():
    """A registry in plain HTTP that asks for a token, or for what `challenge` says."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            if self.headers.get("Authorization") == "Bearer good":
                self.send_response(200)
                self.send_header("Docker-Content-Digest", DIGEST)
            else:
                self.send_response(401)
                self.send_header("WWW-Authenticate", server.challenge)
            self.end_headers()

        def do_GET(self):
            server.logins.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"token": server.token}).encode())

        def log_message(self, *_words):
            """Tests print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.host = f"127.0.0.1:{server.server_address[1]}"
        server.challenge = f'Bearer realm="http://{server.host}/token",service="registry",scope="repository:a:pull"'
        server.logins, server.token = [], "good"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(server, credentials=None):
    return Registry(ImageUri.parse(f"docker://{server.host}/a/b:1"), credentials, plain_http=True).digest()


def test_a_registry_in_plain_http_gives_its_token_in_plain_http(registry) -> None:
    assert ask(registry, Credentials("me", "secret")) == DIGEST
    assert registry.logins == [Credentials("me", "secret").basic]


def test_a_token_that_is_of_no_use_is_a_refusal(registry) -> None:
    registry.token = "bad"  # noqa: S105 - of a registry in this test
    with pytest.raises(ImageError, match="refused access to a/b"):
        ask(registry)


@pytest.mark.parametrize("challenge", ["Negotiate", "", 'Bearer service="x"', 'Bearer realm="ftp://x/"'])
def test_what_can_not_be_answered_is_left_to_the_runtime(registry, challenge: str) -> None:
    registry.challenge = challenge
    assert ask(registry, Credentials("me", "secret")) == ""
    assert registry.logins == []
