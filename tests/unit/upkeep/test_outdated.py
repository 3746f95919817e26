"""Newer tags and moved ones: what counts as newer, and what a registry may answer."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sifmod.eb.space import SoftwareSpace
from sifmod.installed.installation import Installation, find_installations
from sifmod.upkeep import outdated
from sifmod.upkeep.outdated import Standing, newer_tags, standings, tag_of_version

from ..support import a_site, make_installation

OLD, NEW = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


@pytest.mark.parametrize(
    ("tag", "tags", "newer"),
    [
        ("24.03-py3", ["24.03-py3", "25.10-py3", "24.12-py3", "25.10-py3-igpu", "latest"], "25.10-py3 24.12-py3"),
        ("3.9", ["3.10", "3.9", "3.8", "3.10-slim", "20240807"], "3.10"),
        # the hash of a build has no order, and its number has one
        (
            "1.9--h91753b0_8",
            ["1.10--h2e538c0_0", "1.9--h8571acd_9", "1.8--hffffff0_9"],
            "1.10--h2e538c0_0 1.9--h8571acd_9",
        ),
        ("12", ["13", "20260101"], "13"),
        ("bookworm-20240101", ["bookworm-20251101", "trixie-20251101", "bookworm-20231101"], "bookworm-20251101"),
        ("latest", ["newest", "latest2"], ""),
        ("1.0", ["1.1rc1", "1.0", "0.9", "01.0", "9" * 120 + ".0"], ""),
    ],
)
def test_newer_tags_are_of_the_same_form(tag: str, tags: list[str], newer: str) -> None:
    assert newer_tags(tag, tags) == tuple(newer.split())


@pytest.mark.parametrize(
    ("version", "tags", "tag"),
    [
        ("1.22-singularity", ["1.22--h96c455f_0", "1.22--h96c455f_1", "1.22.1--h96c455f_0", "1.2"], "1.22--h96c455f_1"),
        ("3.11", ["v3.11", "3.11.2"], "v3.11"),
        ("3.1", ["3.11", "3.1.1", "13.1"], ""),
        ("7.515-singularity", ["7.515-singularity", "7.515"], "7.515-singularity"),
    ],
)
def test_the_tag_beside_a_digest_alone_begins_with_the_version(version: str, tags: list[str], tag: str) -> None:
    assert tag_of_version(version, tags) == tag


class Server(http.server.ThreadingHTTPServer):
    """A registry without a login; `pages` are bodies of lists of tags, and each but the last links to the next one."""

    def __init__(self, *pages: object) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.pages = list(pages)
        self.is_endless = False
        self.wants_login = False
        self.together = 0  # requests that are there before the first is answered
        self.are_together = threading.Event()
        self.met: list[bool] = []  # whether they were
        self.logins: list[str] = []
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def arrives(self, path: str) -> None:
        self.asked.append(path)
        if len(self.asked) >= self.together:
            self.are_together.set()
        self.met.append(self.are_together.wait(60))


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.server.arrives(self.path)
        self.send_response(200)
        self.send_header("Docker-Content-Digest", NEW)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.arrives(self.path)
        self.server.logins += filter(None, [self.headers.get("Authorization")])
        if self.path == "/v2/" or (self.server.wants_login and not self.headers.get("Authorization")):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        number = int(parse_qs(urlsplit(self.path).query).get("last", ["0"])[0])
        page = self.server.pages[min(number, len(self.server.pages) - 1)]
        body = page if isinstance(page, bytes) else json.dumps({"name": "a/b", "tags": page}).encode()
        self.send_response(200)
        if self.server.is_endless or number + 1 < len(self.server.pages):
            # to another host, which nobody asks
            self.send_header("Link", f'<http://192.0.2.1/v2/x/tags/list?n=1000&last={number + 1}>; rel="next"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    found: list[Server] = []
    yield found
    for one in found:
        one.shutdown()
        one.server_close()


def installed(top: Path, *origins: str, digest: str = OLD) -> tuple[Installation, ...]:
    space = SoftwareSpace(software=top / "software", modules=top / "modules")
    for number, origin in enumerate(origins):
        root = make_installation(space, f"Demo/{number}.0", image_origin=origin, image_digest=digest)
        (root / "easybuild").mkdir()
        (root / "easybuild/Demo.eb").write_text("name = 'Demo'\n")
    return find_installations(space).installations


def asked(top: Path, server: Server, *tags: str, digest: str = OLD) -> list[Standing]:
    items = installed(top, *(f"docker://{server.host}/a/b{tag}" for tag in tags), digest=digest)
    return standings(items, a_site(insecure_registries=(server.host,)))


def test_a_repository_is_asked_once_and_each_tag_for_its_digest(servers: list[Server], tmp_path: Path) -> None:
    servers.append(server := Server(["1.0", "1.1"], ["1.2", "x\x1b[31m", 7, "1.3/evil"]))
    one, two, three = asked(tmp_path, server, ":1.0", ":1.2", f":1.0@{OLD}")
    assert (one.newer, one.has_moved, two.newer) == (("1.2", "1.1"), True, ())
    easyconfig = f"{tmp_path}/software/Demo/0.0/easybuild/Demo.eb"
    assert one.following == f"sifmod new docker://{server.host}/a/b:1.2 --like {easyconfig}"
    assert two.following == f"eb --rebuild --force-download=sources {easyconfig.replace('0.0', '1.0')}"
    assert three.tag == "1.0"
    assert sorted(server.asked) == [
        "/v2/a/b/manifests/1.0",
        "/v2/a/b/manifests/1.2",
        "/v2/a/b/tags/list?n=1000",
        "/v2/a/b/tags/list?n=1000&last=1",
    ]


def test_forty_repositories_of_a_slow_registry_are_asked_at_once(servers: list[Server], tmp_path: Path) -> None:
    """The first answer comes when another one is waited for too."""
    servers.append(server := Server(["1.0", "1.1"]))
    server.together = 2
    items = installed(tmp_path, *(f"docker://{server.host}/a/b{number}:1.0" for number in range(40)))
    found = standings(items, a_site(insecure_registries=(server.host,)))
    assert all(server.met)
    assert [one.newer for one in found] == [("1.1",)] * 40


def test_a_slow_registry_stops_no_other(servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outdated, "_MOST_SECONDS", 2)
    servers.extend([slow := Server(["1.0"]), server := Server(["1.0", "1.1"])])
    slow.together = 100
    items = installed(tmp_path, *(f"docker://{one.host}/a/b:1.0" for one in (slow, server)))
    began = time.monotonic()
    late, prompt = standings(items, a_site(insecure_registries=(slow.host, server.host)))
    assert time.monotonic() - began < 15
    assert late.problem == f"no whole answer of the registry {slow.host} in 2 seconds: ask again later"
    assert prompt.newer == ("1.1",)
    slow.are_together.set()


def test_what_has_not_moved_is_in_order(servers: list[Server], tmp_path: Path) -> None:
    servers.append(server := Server(["1.0"]))
    (one,) = asked(tmp_path, server, ":1.0", digest=NEW)
    assert (one.is_outdated, one.following, one.problem) == (False, "", "")


def test_an_image_with_a_digest_and_no_tag_is_found_by_its_version(servers: list[Server], tmp_path: Path) -> None:
    servers.append(server := Server(["0.0--ha1b2c3d_0", "0.1--hffff00f_0"]))
    (one,) = asked(tmp_path, server, f"@{OLD}")
    assert (one.tag, one.newer) == ("0.0--ha1b2c3d_0", ("0.1--hffff00f_0",))
    server.pages = [["other"]]
    (one,) = asked(tmp_path / "2", server, f"@{OLD}")
    assert one.problem == "no tag of the registry begins with its version"


def test_pages_without_end_are_read_to_a_limit(servers: list[Server], tmp_path: Path) -> None:
    servers.append(server := Server(["1.0", "1.1"]))
    server.is_endless = True
    (one,) = asked(tmp_path, server, ":1.0")
    assert (one.newer, len(server.asked)) == (("1.1",), 101)
    assert one.problem == "the registry's list is too long: only the first 2 tags were read"


def test_of_a_million_tags_the_first_ones_are_read(servers: list[Server], tmp_path: Path) -> None:
    pages = [[f"1.{number}" for number in range(begin, begin + 50_000)] for begin in range(0, 200_000, 50_000)]
    servers.append(server := Server(*pages))
    (one,) = asked(tmp_path, server, ":1.149998")
    assert one.newer == ("1.149999",)
    assert one.problem == "the registry's list is too long: only the first 150000 tags were read"


def test_a_password_has_its_registries(servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colleague may have installed a module from a registry of their own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("APPTAINER_DOCKER_USERNAME", "me")
    monkeypatch.setenv("APPTAINER_DOCKER_PASSWORD", "secret")
    servers.append(server := Server(["1.0", "1.1"]))
    server.wants_login = True
    items = installed(tmp_path, f"docker://{server.host}/a/b:1.0")
    (one,) = standings(items, a_site(insecure_registries=(server.host,)))
    assert server.logins == []
    assert "the password in the variables was not sent to" in one.problem
    site = a_site(insecure_registries=(server.host,), credential_registries=(server.host,))
    (one,) = standings(items, site)
    assert (one.newer, len(server.logins)) == (("1.1",), 1)


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (
            b'{"tags": [' + b'"12345678",' * 500_000 + b'"1"]}',
            "the registry's list is longer than 4 MiB, and was not read",
        ),
        (b'{"tags": {"a": 1}}', "can't be reached from here, or lists no tags: ask again later, or on another node"),
        (b"<html>", "can't be reached from here, or lists no tags: ask again later, or on another node"),
        (b"[" * 100_000, "can't be reached from here, or lists no tags: ask again later, or on another node"),
    ],
)
def test_a_list_that_is_none_is_named(servers: list[Server], tmp_path: Path, page: bytes, problem: str) -> None:
    servers.append(server := Server(page))
    (one,) = asked(tmp_path, server, ":1.0")
    assert one.problem.endswith(problem)
    assert one.newer == ()


def test_a_registry_that_is_away_does_not_hide_another_one(servers: list[Server], tmp_path: Path) -> None:
    servers.append(server := Server(["1.0", "1.1"]))
    closed = "127.0.0.1:9"
    origins = [
        f"docker://{closed}/a/b:1",
        f"docker://{server.host}/a/b:1.0",
        f"docker://{closed}/a/c:1",
        "Dockerfile (x)",
    ]
    site = a_site(insecure_registries=(server.host, closed))
    one, two, three = standings(installed(tmp_path, *origins), site)
    assert (
        one.problem
        == three.problem
        == f"the registry {closed} can't be reached from here, or lists no tags: ask again later, or on another node"
    )
    assert two.newer == ("1.1",)
