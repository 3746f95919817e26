"""Registries whose certificate a pull refuses: the guide has a row for each message, and what it says helps."""

import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conftest import DEMO_EASYCONFIG, DEMO_MODULE, HEAD, ROOT, TESTBED, User

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

Handler = Callable[..., http.server.BaseHTTPRequestHandler]
Serve = Callable[..., int]

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


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A web server of a folder."""

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
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return what starts a registry with the certificate in the temporary folder, and returns its port."""
    servers: list[Server] = []

    def serve(handler: Handler = NoImages) -> int:
        server = Server(("127.0.0.1", 0), handler)
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


@pytest.mark.some(2)
@pytest.mark.parametrize("case", CERTIFICATES)
def test_the_guide_has_a_row_for_each_refused_certificate(user: User, tmp_path: Path, serve: Serve, case: str) -> None:
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


def test_pip_uses_the_authority_and_index_of_the_guide(user: User, tmp_path: Path, serve: Serve, wheel: Path) -> None:
    make_certificate(tmp_path, names="DNS:localhost", of_ca=True, valid=True)
    index = tmp_path / "index"
    (index / "simple/greeting").mkdir(parents=True)
    wheel.rename(index / wheel.name)
    (index / "simple/greeting/index.html").write_text(f"<a href='/{wheel.name}'>{wheel.name}</a>")
    centre = tmp_path / "centre"
    centre.mkdir()
    shutil.copy(tmp_path / "ca.pem", centre)
    port = serve(partial(Quiet, directory=str(index)))
    site = tmp_path / "site.toml"
    site.write_text(
        f"{(TESTBED / 'plain-site.toml').read_text()}\noptional_binds = ['{centre}']\n[container_env]\n"
        f"PIP_INDEX_URL = 'https://localhost:{port}/simple'\nPIP_CERT = '{centre}/ca.pem'\n"
        f"REQUESTS_CA_BUNDLE = '{centre}/ca.pem'\n"
    )
    # without what this machine says of indexes; the test's files lie in a folder that the runtime mounts by itself
    clean = "unset $(compgen -v PIP_) SSL_CERT_FILE; export CURL_CA_BUNDLE=/dev/null SINGULARITY_NO_MOUNT=tmp,cwd"
    user.env["SIFMOD_SITE"] = str(site)
    user.eb(DEMO_EASYCONFIG)
    load = f"{clean}; module load {DEMO_MODULE}"
    unbound = f"{load}; unset SINGULARITY_BIND SINGULARITY_BINDPATH APPTAINER_BIND APPTAINER_BINDPATH"
    unseen = user.run(
        f"{unbound}; singularity exec --env PIP_CONSTRAINT= $SIF python3 -m pip download greeting", check=False
    )
    assert unseen.returncode != 0
    assert "TLS CA certificate bundle, invalid path" in unseen.stderr
    user.run(f"{load}; pip install greeting")
    assert user.out(f"{load}; python -c 'import greeting; print(greeting.greet())'") == "hello"
