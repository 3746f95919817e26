"""Registries whose certificate a pull refuses: the guide has a row for each message, and what it says helps."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import HEAD, ROOT, User

# The host in image_uri, the subject alternative names of the certificate, whether the site's CA has signed it, and
# whether it is still valid; what the runtime prints.
CERTIFICATES = {
    "of the site's CA": ("localhost", "DNS:localhost", True, True, "x509: certificate signed by unknown authority"),
    "self-signed": ("localhost", "DNS:localhost", False, True, "x509: certificate signed by unknown authority"),
    "of another host": (
        "localhost",
        "DNS:other.example",
        True,
        True,
        "x509: certificate is valid for other.example, not",
    ),
    "without an address": ("127.0.0.1", "DNS:localhost", True, True, "because it doesn't contain any IP SANs"),
    "without names": ("localhost", "", True, True, "x509: certificate relies on legacy Common Name field"),
    "expired": ("localhost", "DNS:localhost", True, False, "x509: certificate has expired or is not yet valid"),
}

GUIDE = ROOT / "docs/howto/pull-from-a-registry.md"


class NoImages(http.server.BaseHTTPRequestHandler):
    """A registry that knows the digest of each image, and has none."""

    def do_HEAD(self) -> None:
        self.answer(200)

    def do_GET(self) -> None:
        self.answer(200 if self.path == "/v2/" else 404)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("Docker-Content-Digest", f"sha256:{64 * '0'}")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_words: object) -> None:
        """Print nothing: clients refuse the certificate."""


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_certificate(folder: Path, *, names: str, of_ca: bool, valid: bool) -> None:
    new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"]
    openssl(folder, *new, "/CN=the site's CA", "-x509", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "names").write_text(f"subjectAltName={names}\n" if names else "")
    openssl(folder, *new, "/CN=localhost", "-keyout", "key.pem", "-out", "request.pem")
    signed_by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"] if of_ca else ["-signkey", "key.pem"]
    days = "1" if valid else "0"
    openssl(
        folder, "x509", "-req", "-in", "request.pem", *signed_by, "-days", days, "-extfile", "names", "-out", "host.pem"
    )


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """Return what starts a registry with the certificate in the temporary folder, and returns its port."""
    servers: list[Server] = []

    def serve() -> int:
        server = Server(("127.0.0.1", 0), NoImages)
        servers.append(server)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "host.pem", tmp_path / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("case", CERTIFICATES)
def test_the_guide_has_a_row_for_each_certificate_that_is_refused(
    user: User, tmp_path: Path, serve: Callable[[], int], case: str
) -> None:
    host, names, of_ca, valid, printed = CERTIFICATES[case]
    make_certificate(tmp_path, names=names, of_ca=of_ca, valid=valid)
    easyconfig = user.prefix / "Demo-1.0.eb"
    easyconfig.write_text(f"{HEAD}image_uri = 'docker://{host}:{serve()}/a/b:1'\n")
    # what the guide says for an unknown authority; it must not hide what else is wrong
    if printed != CERTIFICATES["of the site's CA"][-1]:
        user.env["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
    done = user.eb(str(easyconfig), check=False)
    assert done.returncode != 0
    assert printed in done.stdout[done.stdout.index("FAILED: ") :]
    assert printed.partition(" other")[0] in GUIDE.read_text()
    if case == "of the site's CA":
        user.env["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
        told = " ".join(user.eb(str(easyconfig), check=False).stdout.split())
        assert "has no image a/b with the tag '1'" in told
