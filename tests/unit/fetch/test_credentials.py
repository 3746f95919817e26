"""Whose password goes where."""

import base64
import json
from pathlib import Path
from typing import Any, Optional

import pytest

from sifmod.fetch.credentials import Credentials, find_credentials, runtime_environment
from sifmod.fetch.definition import registries_of

from ..support import Stubs, a_site

VARIABLES = {"SINGULARITY_DOCKER_USERNAME": "me", "SINGULARITY_DOCKER_PASSWORD": "secret"}


def pair(found: Optional[Credentials]) -> Optional[tuple[str, str]]:
    return (found.username, found.password) if found else None


def login(host: str, username: str, password: str) -> dict[str, Any]:
    return {"auths": {host: {"auth": base64.b64encode(f"{username}:{password}".encode()).decode()}}}


@pytest.mark.parametrize(
    ("settings", "registry", "sent"),
    [
        ({}, "nvcr.io", True),
        ({"credential_registries": ("nvcr.io",)}, "nvcr.io", True),
        ({"credential_registries": ("nvcr.io",)}, "evil.example.org", False),
        ({"credential_registries": ("nvcr.io",)}, "nvcr.io.evil.example.org", False),
        ({"credential_registries": ("docker.io",)}, "registry-1.docker.io", True),
    ],
)
def test_variables_are_for_the_registries_that_are_named(settings: dict[str, Any], registry: str, sent: bool) -> None:
    found = find_credentials(registry, a_site(**settings), VARIABLES)
    assert pair(found) == (("me", "secret") if sent else None)


@pytest.mark.parametrize(
    "place", [".apptainer/docker-config.json", ".singularity/docker-config.json", ".docker/config.json"]
)
def test_login_files_of_the_runtimes_and_of_docker_are_read(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir()
    path.write_text(json.dumps(login("https://registry.example.org/v2/", "me", "a:b")))
    environ = {"HOME": str(tmp_path)}
    assert pair(find_credentials("registry.example.org", a_site(), environ)) == ("me", "a:b")
    assert find_credentials("other.example.org", a_site(), environ) is None


@pytest.mark.parametrize(("username", "password"), [("00000000-0000-0000-0000-000000000000", ""), ("", "x"), ("", "")])
def test_an_entry_without_a_password_is_no_login(tmp_path: Path, username: str, password: str) -> None:
    """`az acr login` writes such an entry beside an identity token, and an empty password would be in every message."""
    (tmp_path / ".apptainer").mkdir()
    (tmp_path / ".apptainer/docker-config.json").write_text(
        json.dumps(login("registry.example.org", username, password))
    )
    environ = {"HOME": str(tmp_path)}
    assert find_credentials("registry.example.org", a_site(), environ) is None
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(json.dumps(login("registry.example.org", "me", "x")))
    assert pair(find_credentials("registry.example.org", a_site(), environ)) == ("me", "x")


@pytest.mark.parametrize("settings", [{"credHelpers": {"registry.example.org": "demo"}}, {"credsStore": "demo"}])
def test_a_credential_helper_is_asked(tmp_path: Path, stub: Stubs, settings: dict[str, Any]) -> None:
    stub(
        "docker-credential-demo",
        '[ "$1" = get ] && read -r server || [ "$server" ] || exit 1\n'
        """printf '{"ServerURL": "%s", "Username": "me", "Secret": "for %s"}' "$server" "$server"\n""",
    )
    (tmp_path / "config.json").write_text(json.dumps(settings))
    found = find_credentials("registry.example.org", a_site(), {"DOCKER_CONFIG": str(tmp_path)})
    assert pair(found) == ("me", "for registry.example.org")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("demo", "exit 1"),
        ("demo", "echo nonsense"),
        ("demo", "echo '[1]'"),
        ("demo", """echo '{"Username": "<token>", "Secret": "x"}'"""),
        ("demo", """echo '{"Username": 1, "Secret": "x"}'"""),
        ("demo", """echo '{"Username": "me", "Secret": ""}'"""),
        ("missing", ""),
        ("../demo", """echo '{"Username": "me", "Secret": "x"}'"""),
    ],
)
def test_a_helper_that_has_nothing_is_no_accident(tmp_path: Path, stub: Stubs, name: str, answer: str) -> None:
    stub("docker-credential-demo", answer)
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": name}))
    assert find_credentials("registry.example.org", a_site(), {"DOCKER_CONFIG": str(tmp_path)}) is None


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"auths": [1]}', '{"auths": {"a.b": 1}}', "[" * 100_000, '{"credHelpers": 1}']
)
def test_a_login_file_that_is_none_is_no_accident(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert find_credentials("a.b", a_site(), {"DOCKER_CONFIG": str(tmp_path)}) is None


def test_the_runtime_gets_what_is_for_its_registry_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    assert not [name for name in runtime_environment(None) if "_DOCKER_" in name]
    environ = runtime_environment(Credentials("you", "other"))
    for prefix in ("SINGULARITY", "APPTAINER"):
        assert (environ[f"{prefix}_DOCKER_USERNAME"], environ[f"{prefix}_DOCKER_PASSWORD"]) == ("you", "other")
    assert "secret" not in repr(Credentials("me", "secret", "x"))


@pytest.mark.parametrize(
    ("text", "registries"),
    [
        ("Bootstrap: docker\nFrom: nvcr.io/nvidia/pytorch:24.03-py3\n%post\n    From: evil.org/x\n", {"nvcr.io"}),
        ("bootstrap: docker\nfrom: debian:12\n", {"docker.io"}),
        ("Bootstrap: docker\nFrom: nvcr.io/a\nStage: one\n\nBootstrap: docker\nFrom: b\n", {"nvcr.io", "docker.io"}),
        ("Bootstrap: docker\nRegistry: a.org\nFrom: b\n", {"a.org"}),
        ("Bootstrap: docker\nFrom: {{ BASE }}\n", {"known.org"}),
        ("Bootstrap: docker\nFrom: {{ OTHER }}\n", {""}),
        ("Bootstrap: docker\nFrom: {{ OWN }}\n%arguments\nOWN=a.org/{{ BASE }}\n", {"a.org"}),
        ("Bootstrap: docker\nNamespace: a.org/b\nFrom: c\n", {"a.org"}),
        ("Bootstrap: docker\nFrom: nvcr.io/a\n%post\n  bootstrap: docker\n  from: evil.org/x\n", {"nvcr.io"}),
        ("Bootstrap: oras\nRegistry: a.org\nFrom: b.org/c\n", {"b.org"}),
        ("Bootstrap: localimage\nFrom: /a/b.sif\n", set()),
        ("", set()),
    ],
)
def test_the_registries_of_a_definition_are_known(tmp_path: Path, text: str, registries: set[str]) -> None:
    path = tmp_path / "demo.def"
    path.write_text(text)
    assert registries_of(path, {"BASE": "known.org/x:1"}) == registries
