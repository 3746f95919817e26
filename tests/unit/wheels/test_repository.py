"""Whose logins git uses for the repository of a source, and for its submodules."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sifmod.errors import InstallError
from sifmod.wheels.repository import _absolute, _is_beside, clone

_LOGIN = f"Basic {base64.b64encode(b'me:secret').decode()}"
# The ways in which this user's git knows the login: the user's configuration, and another file of the home.
_WAYS = {
    "helper": ("[credential]\nuseHttpPath = true\nhelper = HOME/helper\n", ""),
    "netrc": ("", "machine 127.0.0.1 login me password secret\n"),
    "header": (f'[http]\nextraHeader = "Authorization: {_LOGIN}"\n', ""),
    "address": ('[url "http://me:secret@127.0.0.1"]\ninsteadOf = http://127.0.0.1\n', ""),
}


class Forge:
    """A server of repositories: those with `private` in their name are for a user who logs in."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.address = ""
        self.logins: set[str] = set()  # the repositories that were asked for with a login
        self.commits: dict[str, str] = {}

    def add(self, name: str, **submodules: str) -> None:
        """Add a repository with submodules, whose addresses are given."""
        work = self.top / "work" / name
        work.mkdir(parents=True)
        git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(work)]
        (work / "name").write_text(name)
        sections = [f'[submodule "{path}"]\npath = {path}\nurl = {url}\n' for path, url in submodules.items()]
        (work / ".gitmodules").write_text("".join(sections).replace("FORGE", self.address))
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        for path, url in submodules.items():
            commit = self.commits.get("/".join(url.split("/")[-2:]).replace("../", "me/"), "1" * 40)
            subprocess.run([*git, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}"], check=True)
        subprocess.run([*git, "commit", "-qm", name], check=True)
        subprocess.run([*git, "update-server-info"], check=True)
        done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True)
        self.commits[name] = done.stdout.strip()
        (self.top / name).parent.mkdir(exist_ok=True)
        (work / ".git").rename(self.top / name)


class Handler(SimpleHTTPRequestHandler):
    """Serves the files of a forge."""

    def __init__(self, forge: Forge, *words: object) -> None:
        self.forge = forge
        super().__init__(*words, directory=str(forge.top))  # type: ignore[arg-type] # the class passes three

    def do_GET(self) -> None:
        login = self.headers["Authorization"]
        if login:
            self.forge.logins.add("/".join(self.path.split("/")[1:3]))
        if "moved" in self.path:
            self.send_response(302)
            self.send_header("Location", self.path.replace("me/moved", "other/private"))
            self.end_headers()
        elif "private" in self.path and login != _LOGIN:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="forge"')
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    made = Forge(tmp_path / "forge")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, made)) as server:
        made.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


@pytest.fixture(params=_WAYS)
def environ(request: pytest.FixtureRequest, tmp_path: Path, forge: Forge) -> dict[str, str]:
    """Return the environment of a user who has a login for the forge."""
    config, netrc = _WAYS[request.param]
    config = config.replace("127.0.0.1", forge.address.rpartition("/")[2]).replace("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(config)
    (tmp_path / "helper").write_text("#!/bin/sh\ncat >>$HOME/log\necho username=me\necho password=secret\n")
    (tmp_path / "helper").chmod(0o755)
    (tmp_path / ".netrc").write_text(netrc)
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


def test_only_the_owner_s_submodules_get_logins(forge: Forge, environ: dict[str, str], tmp_path: Path) -> None:
    forge.add("other/private")
    forge.add("me/private-deep")
    forge.add("me/private-lib", deep="../private-deep")
    forge.add("other/public", trap="FORGE/me/private-deep")
    forge.add(
        "me/private",
        own="../private-lib",
        public="FORGE/other/public",
        trap="FORGE/other/private",
        dots="FORGE/me/../other/private",
        file=f"file://{forge.top}/other/private",
        ssh="git@127.0.0.1:other/private",
    )
    said: list[str] = []
    clone(f"{forge.address}/me/private", "", tmp_path / "made", say=said.append, environ=environ)
    names = {str(path.parent.relative_to(tmp_path / "made")) for path in (tmp_path / "made").rglob("name")}
    assert names == {".", "own", "own/deep", "public"}
    assert forge.logins == {"me/private", "me/private-lib", "me/private-deep"}
    lost = {one.split(": ")[1].removeprefix("the submodule ").replace(forge.address, "") for one in said}
    assert lost == {
        *("/other/private", "/me/../other/private", "/me/private-deep"),
        *(f"file://{forge.top}/other/private", "git@127.0.0.1:other/private"),
    }
    log = tmp_path / "log"
    if log.exists():
        assert {line for line in log.read_text().splitlines() if line.startswith("path=")} == {
            "path=me/private",
            "path=me/private-lib",
            "path=me/private-deep",
        }


def test_a_redirection_leads_no_login_elsewhere(forge: Forge, environ: dict[str, str], tmp_path: Path) -> None:
    forge.add("other/private")
    forge.commits["me/moved"] = forge.commits["other/private"]
    forge.add("me/public", lib="../moved")
    with pytest.raises(InstallError, match=r"could not bring the submodule .*/me/moved"):
        clone(f"{forge.address}/me/public", "", tmp_path / "made", say=print, environ=environ)
    assert "other/private" not in forge.logins


@pytest.mark.parametrize(
    ("address", "repository", "expected"),
    [
        ("https://h/o/b", "https://h/o/a.git", True),
        ("https://H/o/sub/b/", "https://h/o/a", True),
        ("git@h:o/b.git", "https://h/o/a", True),
        ("ssh://git@h/o/b", "ssh://git@h/o/a", True),
        ("git@h:o/b", "ssh://git@h/o/a", True),
        ("https://h/other/b", "https://h/o/a", False),
        ("https://h/oo/b", "https://h/o/a", False),
        ("https://h:444/o/b", "https://h/o/a", False),
        ("https://h.evil/o/b", "https://h/o/a", False),
        ("http://h/o/b", "https://h/o/a", False),
        ("https://you@h/o/b", "https://h/o/a", False),
        ("ssh://me@h/o/b", "https://h/o/a", False),
        ("https://h/o/../x/b", "https://h/o/a", False),
        ("https://h/o/./b", "https://h/o/a", False),
        ("https://h/o/..", "https://h/o/a", False),
        ("https://h/o/%2e%2e/x", "https://h/o/a", False),
        ("https://h/o//b", "https://h/o/a", False),
        ("https://h/o\\..\\b", "https://h/o/a", False),
        ("https://h/b", "https://h/a", False),
        ("file:///o/b", "file:///o/a", False),
        ("/o/b", "https://h/o/a", False),
    ],
)
def test_whose_a_submodule_is_by_its_address(address: str, repository: str, expected: bool) -> None:
    assert _is_beside(address, repository) is expected


@pytest.mark.parametrize(
    ("address", "url", "expected"),
    [
        ("https://h/o/a.git", "../b", "https://h/o/b"),
        ("https://h/o/a/", "../../x/b", "https://h/x/b"),
        ("https://h/o/a", "./b", "https://h/o/a/b"),
        ("git@h:o/a", "../b", "git@h:o/b"),
        ("https://h/o/a", "https://x/b", "https://x/b"),
        ("https://h/o/a", "../../../../b", "https:/b"),
    ],
)
def test_a_relative_address_begins_at_the_repository_above(address: str, url: str, expected: str) -> None:
    assert _absolute(address, url) == expected
