from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sifmod.errors import ImageError
from sifmod.fetch import connection
from sifmod.fetch import registry as registry_module
from sifmod.fetch.credentials import Credentials
from sifmod.fetch.registry import Registry, refusal
from sifmod.fetch.uri import ImageUri

from ..support import a_site

DIGEST = "sha256:" + "a" * 64


class Server(http.server.ThreadingHTTPServer):
    """A registry in plain HTTP that asks for a token, or for what `challenge` says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.challenge = f'Bearer realm="http://{self.host}/token",service="registry",scope="repository:a:pull"'
        # those of /v2/, if they are others
        self.first_challenges: Optional[list[str]] = None
        self.first_status = 401
        self.logins: list[Optional[str]] = []
        self.answer = b""
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
        if self.path == "/v2/":
            self.send_response(self.server.first_status)
            for challenge in self.server.first_challenges or [self.server.challenge]:
                self.send_header("WWW-Authenticate", challenge)
            self.end_headers()
            return
        self.server.logins.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.answer or json.dumps({"token": self.server.token}).encode())

    def log_message(self, *_words: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def registry() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(host: str, credentials: Optional[Credentials] = None, **site: Any) -> str:
    settings = a_site(**{"insecure_registries": (host,), **site})
    return Registry(ImageUri.parse(f"docker://{host}/a/b:1"), credentials, settings).digest()


ME = Credentials("me", "secret", "the variables")


def test_a_registry_in_plain_http_gives_its_token_in_plain_http(registry: Server) -> None:
    assert ask(registry.host, ME) == DIGEST
    assert registry.logins == [ME.basic]
    registry.token = "bad"  # noqa: S105 - of a registry in this test
    with pytest.raises(ImageError, match="refused access to a/b"):
        ask(registry.host)


UNKNOWN = ["Negotiate", "", 'Bearer service="x"', 'Bearer realm="ftp://x/"', 'Negotiate realm="https://127.0.0.1/"']


@pytest.mark.parametrize("challenge", UNKNOWN)
def test_what_can_not_be_answered_is_left_to_the_runtime_without_a_password(registry: Server, challenge: str) -> None:
    registry.challenge = challenge
    assert ask(registry.host) == ""
    with pytest.raises(ImageError, match="was not sent"):
        ask(registry.host, ME)
    assert registry.logins == []


ELSEWHERE = 'Bearer realm="https://evil.example.org/t",service="x"'


@pytest.mark.parametrize(
    "challenges",
    [
        [ELSEWHERE],
        ['Basic realm="Registry"', ELSEWHERE],
        [f'Basic realm="Registry", {ELSEWHERE}'],
        ["bearer Realm = https://evil.example.org/t,service=x"],
        ['Bearer realm="https://127.0.0.1/t",realm="https://evil.example.org/t"'],
        [r'Bearer realm="https:\/\/evil.example.org/t"'],
        ['Bearer realm="https://127.0.0.1@evil.example.org/t"'],
        [r'Bearer realm="https://127.0.0.1\\@evil.example.org/t"'],
        ['Bearer realm="https://evil.example.org#127.0.0.1"'],
        ['Bearer realm="//evil.example.org/t"'],
    ],
)
def test_the_runtime_gets_no_password_that_a_registry_sends_elsewhere(registry: Server, challenges: list[str]) -> None:
    """Runtimes obey the answer for /v2/, whatever the registry says about the image."""
    registry.first_challenges = challenges
    with pytest.raises(ImageError, match="was not sent"):
        ask(registry.host, ME)
    assert ask(registry.host) == DIGEST


def test_a_registry_that_does_not_say_how_to_log_in_gets_no_password(registry: Server) -> None:
    registry.first_challenges = ['Basic realm="Registry Realm"', registry.challenge]
    assert ask(registry.host, ME) == DIGEST
    registry.first_status = 503
    with pytest.raises(ImageError, match="the status 503: the password was not sent"):
        ask(registry.host, ME)
    assert ask(registry.host) == DIGEST


@pytest.mark.parametrize(
    ("realm", "said"),
    [
        ("https://evil.example.org/token", "to be sent to 'evil.example.org', which is on another domain"),
        ("https://127.0.0.2/token", "to be sent to '127.0.0.2', which is on another domain"),
        ("http://localhost/token", "to be sent to 'localhost' in plain HTTP"),
    ],
)
def test_a_password_is_sent_to_no_other_domain_and_not_in_the_open(registry: Server, realm: str, said: str) -> None:
    registry.challenge = f'Bearer realm="{realm}",service="registry"'
    with pytest.raises(ImageError, match=said):
        ask(registry.host, ME)
    assert registry.logins == []


def test_a_token_service_that_the_site_names_gets_the_password(registry: Server) -> None:
    port = registry.host.rpartition(":")[2]
    registry.challenge = f'Bearer realm="http://localhost:{port}/token",service="registry"'
    allowed = (registry.host, f"localhost:{port}")
    with pytest.raises(ImageError, match="SIFMOD_TOKEN_SERVICES"):
        ask(registry.host, ME, insecure_registries=allowed)
    assert ask(registry.host, ME, insecure_registries=allowed, token_services=("localhost",)) == DIGEST
    assert registry.logins == [ME.basic]


@pytest.mark.parametrize(
    ("host", "other", "same"),
    [
        ("registry-1.docker.io", "auth.docker.io", True),
        ("registry.gitlab.example.ac.uk", "gitlab.example.ac.uk", True),
        ("registry.example.co.uk", "evil.co.uk", False),
        ("nvcr.io", "evil.io", False),
        ("10.0.0.1:5000", "10.0.0.1", True),
        ("10.0.0.1", "11.0.0.1", False),
        ("[::1]:5000", "[::1]", True),
        ("[::1]:5000", "[::2]", False),
    ],
)
def test_one_organisation_has_one_domain(host: str, other: str, same: bool) -> None:
    assert (registry_module._domain(host) == registry_module._domain(other)) == same


@pytest.mark.parametrize(
    "answer",
    [b"[1,2]", b"null", b"\xff", b"[" * 200_000, b'{"token": ["x"]}', b'{"token": "a\\r\\nX-Header: b"}', b"9" * 9000],
)
def test_a_token_service_that_says_nonsense_is_left_to_the_runtime(registry: Server, answer: bytes) -> None:
    registry.answer = answer
    assert ask(registry.host, ME) == ""


class Raw(socketserver.ThreadingTCPServer):
    """Answers whoever connects with the same bytes."""

    allow_reuse_address = True
    answer = b""


class RawHandler(socketserver.BaseRequestHandler):
    server: Raw

    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(self.server.answer)


@pytest.fixture(scope="module")
def raw() -> Iterator[Raw]:
    with Raw(("127.0.0.1", 0), RawHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@given(answer=st.binary(max_size=300) | st.binary(max_size=100).map(lambda rest: b"HTTP/1.1 401 X\r\n" + rest))
@example(answer=b"SSH-2.0-OpenSSH_9.2\r\n")
@example(answer=b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n")
@example(answer=b"HTTP/1.1 302 X\r\nLocation: http://localhost:abc/\r\n\r\n")
@example(answer=b'HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer realm="https://[/"\r\n\r\n')
@settings(max_examples=60)
def test_whatever_a_server_sends_is_no_accident(raw: Raw, answer: bytes) -> None:
    raw.answer = answer
    try:
        said = ask(f"127.0.0.1:{raw.server_address[1]}", ME)
    except ImageError as error:
        said = str(error)
    assert "\n" not in said


def test_what_can_not_be_connected_to_is_no_accident() -> None:
    assert ask("localhost:abc") == ""
    with pytest.raises(ImageError, match="does not answer as a registry does"):
        ask("localhost:abc", ME)
    assert ask("localhost:1", ME) == ""


class EndlessHandler(socketserver.BaseRequestHandler):
    """Sends a beginning, and then pieces without end."""

    server: Endless

    def handle(self) -> None:
        self.request.recv(65536)
        with contextlib.suppress(OSError):
            self.request.sendall(self.server.beginning)
            while True:
                self.request.sendall(self.server.piece)
                time.sleep(0.01)


class Endless(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, beginning: bytes, piece: bytes) -> None:
        super().__init__(("127.0.0.1", 0), EndlessHandler)
        self.beginning = beginning
        self.piece = piece


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Header: ", b"a"),
        (b"HTTP/1.1 401 No\r\nContent-Length: 99999999\r\n\r\n", b"a"),
    ],
)
def test_an_answer_that_does_not_end_is_none(beginning: bytes, piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_WHOLE", 0.3)
    with Endless(beginning, piece) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        begin = time.monotonic()
        assert ask(host) == ""
        with pytest.raises(ImageError, match="was not sent"):
            ask(host, ME)
        assert time.monotonic() - begin < 240
        server.shutdown()


def test_a_token_that_does_not_end_is_none(registry: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_WHOLE", 0.3)
    with Endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", b"a") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        registry.challenge = f'Bearer realm="http://{host}/token",service="registry"'
        assert ask(registry.host, insecure_registries=(registry.host, host)) == ""
        server.shutdown()


def test_a_redirection_to_another_protocol_is_not_followed(raw: Raw) -> None:
    raw.answer = b"HTTP/1.1 302 X\r\nLocation: ftp://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n"
    request = urllib.request.Request(f"http://127.0.0.1:{raw.server_address[1]}/", method="HEAD")
    with pytest.raises(urllib.error.URLError, match="redirection to 'ftp:"), connection.answer_to(request):
        pass


def test_the_command_to_log_in_is_one_that_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = ImageUri.parse("docker://nvcr.io/nvidia/pytorch:24.03-py3")
    message = refusal(uri, a_site(runtime="apptainer"), None)
    assert "apptainer registry login --username '$oauthtoken' docker://nvcr.io" in message
    for variable in ("USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"APPTAINER_DOCKER_{variable}", "x")
    kept = "the password in the variables was not sent to nvcr.io, which 'credential_registries' does not name"
    assert kept in refusal(uri, a_site(), None)
    wrong = Credentials("x", "y", "the variables A and B")
    assert "correct or unset these variables, or log in with" in refusal(uri, a_site(), wrong)


def test_a_name_of_one_word_with_a_digest_has_no_credentials() -> None:
    uri = ImageUri.parse(f"docker://debian@{DIGEST}")
    assert (uri.registry, uri.repository, uri.digest) == ("docker.io", "library/debian", DIGEST)
    assert uri.pinned(DIGEST) == f"docker://docker.io/library/debian@{DIGEST}"
    for text in ("docker://user:secret@debian", "docker://user:secret@example.org/debian"):
        with pytest.raises(ValueError, match=r"credentials do not belong|not a digest"):
            ImageUri.parse(text)


@pytest.mark.parametrize("path", ["/cvmfs/unpacked.example.org/debian:12", "/images/demo.sif"])
def test_a_path_belongs_in_sources(path: str) -> None:
    with pytest.raises(ValueError, match="it is a path: write it in sources, a directory with image_mode = 'central'"):
        ImageUri.parse(path)
