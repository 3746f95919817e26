"""Builds of Dockerfiles in the store, with a builder and a runtime that note what they are started with."""

import hashlib
import json
import os
import urllib.error
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.programs import write_program

from sifmod.errors import ImageError, InstallError, ParameterError
from sifmod.fetch.credentials import Credentials, find_all_credentials, login_file
from sifmod.fetch.definition import Definition, kept_definition
from sifmod.fetch.registry import Registry
from sifmod.fetch.store import ImageStore
from sifmod.fetch.uri import ImageUri
from sifmod.host.builder import ImageBuilder
from sifmod.host.runtime import ContainerRuntime
from sifmod.site.settings import Site

from ..support import SIF_HEADER, a_site

# Each notes its calls beside itself. The builder keeps what it was given to build.
BUILDER = """#!/bin/bash
echo "$*" >>"$0.calls"
case " $* " in
    *' cat /proc/self/uid_map '*) printf '0 1000 1\\n1 100000 65536\\n' ;;
    *' rm -rf '*) rm -rf -- "${@: -1}" ;;
    *' build '*)
        cp "$REGISTRY_AUTH_FILE" "$0.logins"
        cp -r "${@: -1}" "$0.context"
        cp "${@: -2:1}" "$0.dockerfile"
        echo 'STEP 1/1: FROM x'
        . "$0.script"
        ;;
    *' push '*) archive=${!#}; archive=${archive#oci-archive:}; echo archive >"${archive%:latest}" ;;
esac
"""
RUNTIME = """#!/bin/bash
[[ $1 != --version ]] || exec echo fake version 1.0
echo "$*" >>"$0.calls"
[[ -s ${3#oci-archive:} ]] && cp "$0.image" "$2"
"""
DIGEST = f"sha256:{'d' * 64}"


class Place:
    """A folder with a Dockerfile, and the store in which it is built."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, list[str]()
        for name, script in (("buildah", BUILDER), ("singularity", RUNTIME)):
            write_program(folder / name, script)
        (folder / "singularity.image").write_bytes(SIF_HEADER)
        (folder / "buildah.script").touch()
        (folder / "tmp").mkdir()
        self.site: Site = a_site(runtime_tmpdir=str(folder / "tmp"))
        (folder / "Dockerfile").write_text("FROM registry.example.org/a:1 AS one\nARG V\nCOPY data.bin /opt/\n")
        (folder / "data.bin").write_bytes(b"\xff\0")

    def definition(self, build_args: Optional[Mapping[str, str]] = None, **changes: Any) -> Definition:
        fields = {"files": (self.folder / "data.bin",), **changes}
        return Definition(self.folder / "Dockerfile", build_args or {}, **fields)

    def build(self, definition: Optional[Definition] = None) -> Path:
        runtime = ContainerRuntime(self.folder / "singularity")
        store = ImageStore(self.folder / "store", runtime, self.site, self.said.append)
        return store.build(definition or self.definition(), stem="Demo-1.0")[0]

    def calls(self, name: str) -> list[str]:
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def leftovers(self) -> list[str]:
        return [path.name for path in (self.folder / "tmp").iterdir()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(Registry, "digest", lambda _self: DIGEST)
    monkeypatch.setattr(ImageBuilder, "is_rootless", True)  # also where root runs the tests
    return Place(tmp_path)


def test_a_build_is_kept_once_and_leaves_nothing(place: Place) -> None:
    image = place.build(place.definition({"V": "a b"}, target="one"))
    assert image == place.build(place.definition({"V": "a b"}, target="one"))
    (build,) = (call for call in place.calls("buildah") if " build " in call)
    assert "--build-arg V=a b --target one --tag" in build
    (made,) = place.calls("singularity")
    assert made.startswith(f"build {place.folder}/store/.{image.name}.partial/image.partial oci-archive:/")
    assert not place.leftovers
    names = sorted(path.name for path in (place.folder / "store").iterdir())
    assert names == [f".{image.name}.lock", image.name]
    assert "STEP 1/1: FROM x" in place.said


def test_the_context_is_what_the_easyconfig_names_and_nothing_else(place: Place) -> None:
    (place.folder / ".dockerignore").write_text("*.bin\n")
    (place.folder / "secret.key").touch()
    place.build()
    context = place.folder / "buildah.context"
    assert sorted(path.name for path in context.iterdir()) == [".dockerignore", "Dockerfile", "data.bin"]
    assert (context / "Dockerfile").read_text() == (place.folder / "Dockerfile").read_text()
    (place.folder / ".dockerignore").write_text("x")
    assert [path.name for path in place.definition().kept] == ["Dockerfile", ".dockerignore"]


@pytest.mark.parametrize("name", ["data.bin", ".dockerignore", "Dockerfile.dockerignore"])
@pytest.mark.parametrize("target", ["../secret", "/proc/self/environ", "/dev/zero"])
def test_a_link_out_of_the_folder_is_not_built_of(place: Place, name: str, target: str) -> None:
    (place.folder / "../secret").write_text("a key")
    (place.folder / name).unlink(missing_ok=True)
    (place.folder / name).symlink_to(target)
    with pytest.raises(ImageError, match=f"/{name}', of which the image is built, can't be used: it leads out"):
        place.build()
    with pytest.raises(ImageError, match="it leads out of its folder"):
        place.definition().kept  # noqa: B018 - the look is what is tested
    with pytest.raises(InstallError, match="it leads out of its folder"):
        kept_definition(place.folder / name)
    assert not place.calls("buildah")


def test_a_link_within_the_folder_is_built_of(place: Place) -> None:
    write_program(place.folder / "real", "text")
    (place.folder / "data.bin").unlink()
    (place.folder / "data.bin").symlink_to("real")
    place.build()
    copied = place.folder / "buildah.context/data.bin"
    assert (copied.is_symlink(), copied.read_text(), os.access(copied, os.X_OK)) == (False, "text", True)
    assert place.folder / "data.bin" in place.definition().kept


def test_what_was_hashed_is_what_is_copied(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the image, and its record, are made of what was looked at first."""
    check = ImageBuilder.check

    def changed(builder: ImageBuilder) -> None:
        (place.folder / "data.bin").write_text("changed")
        check(builder)

    monkeypatch.setattr(ImageBuilder, "check", changed)
    with pytest.raises(ImageError, match="was changed at the same time: start eb again"):
        place.build()
    assert not [call for call in place.calls("buildah") if " build " in call]
    assert not place.leftovers


def test_a_base_image_is_used_by_its_digest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.build()
    built = (place.folder / "buildah.dockerfile").read_text()
    assert built.startswith(f"FROM registry.example.org/a@{DIGEST} AS one\n")
    assert f"registry.example.org/a:1 is registry.example.org/a@{DIGEST}" in place.said
    monkeypatch.setattr(Registry, "digest", lambda _self: "")
    (place.folder / "Dockerfile").write_text("FROM debian\nFROM nvidia/cuda:12\nFROM x:${TARGETARCH}\n")
    place.build()
    built = (place.folder / "buildah.dockerfile").read_text()
    assert built == "FROM docker.io/library/debian:latest\nFROM docker.io/nvidia/cuda:12\nFROM x:${TARGETARCH}\n"


def test_everything_that_goes_in_is_in_the_key(place: Place) -> None:
    def names() -> list[str]:
        definitions = (place.definition(), place.definition({"V": "1"}), place.definition(target="one"))
        return [definition.file_name("x") for definition in definitions]

    seen = names()
    (place.folder / "data.bin").write_bytes(b"other")
    seen += names()
    (place.folder / "data.bin").chmod(0o755)
    seen += names()
    (place.folder / ".dockerignore").write_text("x")
    seen += names()
    (place.folder / "Dockerfile.dockerignore").write_text("y")
    seen += names()
    (place.folder / "Dockerfile").write_text("FROM x")
    seen += names()
    assert len(set(seen)) == 18


def test_each_registry_gets_its_own_login(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"SINGULARITY_DOCKER_{name}", "of-the-variables")
    place.site = a_site(runtime_tmpdir=place.site.runtime_tmpdir, credential_registries=("registry.example.org",))
    place.build()
    logins = json.loads((place.folder / "buildah.logins").read_text())
    assert list(logins["auths"]) == ["registry.example.org"]
    # a file of a clone may name any registry
    for registries in ({"a.org"}, {"a.org", "b.org"}, {"a.org", ""}):
        assert not find_all_credentials(registries, a_site())
    bound = a_site(credential_registries=("a.org",))
    assert list(find_all_credentials({"a.org", "b.org"}, bound)) == ["a.org"]
    file = json.loads(login_file({"docker.io": Credentials("me", "secret"), "a.org:5000": Credentials("you", "x")}))
    assert file["auths"] == {
        "https://index.docker.io/v1/": {"auth": "bWU6c2VjcmV0"},
        "a.org:5000": {"auth": "eW91Ong="},
    }


@pytest.mark.parametrize(
    ("insecure", "text", "is_allowed"),
    [
        ((), "FROM registry.example.org/a\n", False),
        (("registry.example.org",), "FROM registry.example.org/a\n", True),
        (("registry.example.org",), "FROM registry.example.org/a\nFROM debian\n", False),
        (("registry.example.org",), "FROM scratch\n", False),
    ],
)
def test_plain_http_only_if_no_registry_speaks_tls(
    place: Place,
    insecure: tuple[str, ...],
    text: str,
    is_allowed: bool,
) -> None:
    place.site = a_site(runtime_tmpdir=str(place.folder / "tmp"), insecure_registries=insecure)
    (place.folder / "Dockerfile").write_text(text)
    place.build()
    (build,) = (call for call in place.calls("buildah") if " build " in call)
    assert ("--tls-verify=false" in build) == is_allowed


def test_the_registry_s_refusal_names_the_dockerfile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def digest(registry: Registry) -> str:
        seen.append(registry.written)
        raise ImageError("refused")

    monkeypatch.setattr(Registry, "digest", digest)
    with pytest.raises(ImageError, match="refused"):
        place.build()
    assert seen == ["registry.example.org/a:1 in the Dockerfile"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo something odd; exit 125", "building Dockerfile failed with exit status 125; buildah's last lines: "),
        ("kill -9 $$", "was killed, most likely because this node ran out of memory"),
        ("echo 'subprocess exited on killed'; exit 1", "was killed, most likely"),
        ("echo \"The command '/bin/sh' returned a non-zero code: 137\"; exit 1", "was killed, most likely"),
        ("echo 'process did not complete successfully: exit code: 137'; exit 1", "was killed, most likely"),
        ("echo 'write /x: no space left on device'; exit 125", "ran out of space. Set 'runtime_tmpdir'"),
        (
            "echo 'http: server gave HTTP response to HTTPS client'; exit 125",
            "for a Dockerfile, all of its registries must be there",
        ),
    ],
)
def test_a_build_that_fails_leaves_nothing(place: Place, script: str, said: str) -> None:
    (place.folder / "buildah.script").write_text(script)
    with pytest.raises(ImageError) as caught:
        place.build()
    assert said in str(caught.value)
    assert not place.leftovers
    assert [path.suffix for path in (place.folder / "store").iterdir()] == [".lock"]
    assert not place.calls("singularity")


def test_what_a_killed_build_has_left_is_removed_by_the_next(place: Place) -> None:
    leftover = place.folder / "tmp" / "sifmod-build-old"
    (leftover / "storage").mkdir(parents=True)
    (place.folder / "store").mkdir()
    mark = place.folder / "store" / f".{place.definition().file_name('Demo-1.0')}.build"
    mark.symlink_to(leftover)
    place.build()
    assert not place.leftovers
    assert not mark.is_symlink()


def test_what_can_t_be_removed_is_left_to_the_next_build(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_builder: ImageBuilder, _folder: Path) -> None:
        raise OSError(39, "Directory not empty")

    with monkeypatch.context() as patch:
        patch.setattr(ImageBuilder, "remove", full)
        place.build()
    (left,) = place.leftovers
    (mark,) = (place.folder / "store").glob(".*.build")
    assert mark.readlink() == place.folder / "tmp" / left
    next((place.folder / "store").glob("*.sif")).unlink()
    place.build()
    assert not place.leftovers


@pytest.mark.parametrize("name", ["precious", "sifmod-build-gone"])
def test_a_link_to_something_else_removes_nothing(place: Place, name: str) -> None:
    precious = place.folder / "precious"
    precious.mkdir()
    (place.folder / "store").mkdir()
    (place.folder / "store" / f".{place.definition().file_name('Demo-1.0')}.build").symlink_to(place.folder / name)
    place.build()
    assert precious.is_dir()


def test_what_is_wrong_in_a_definition_is_named_before_anything_is_started(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"line 3, COPY data\.bin: the build context has no such file"):
        place.build(place.definition(files=()))
    assert not [call for call in place.calls("buildah") if " build " in call]
    with pytest.raises(ParameterError, match="'build_target' = 'x': only a Dockerfile has stages to choose from"):
        Definition(tmp_path / "image.def", {}, target="x")
    path = tmp_path / "x.def"
    path.write_bytes(b"Bootstrap: docker\nFrom: debian\n")
    expected = f'x.def sha256:{hashlib.sha256(path.read_bytes()).hexdigest()} {{"A": "b"}}'
    assert Definition(path, {"A": "b"}, files=(tmp_path / "not-read",)).origin == expected
    # a link on the way to the easyconfig was exchanged between the two
    with pytest.raises(ImageError, match="was changed at the same time"):
        Definition(path, {}, files=(Path("/home/me/.ssh/id_rsa"),))
    place.site = a_site(runtime_tmpdir=str(place.folder / "none"))
    with pytest.raises(ImageError, match=r"can't make a folder for the build .*: set 'runtime_tmpdir'"):
        place.build()


def test_an_unknown_tag_names_where_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_self: Registry, address: str, *_more: object) -> str:
        raise urllib.error.HTTPError(address, 404, "", Message(), None)

    monkeypatch.setattr(Registry, "_ask", missing)
    uri = ImageUri.parse("docker://a.org/x:1")
    with pytest.raises(ImageError, match="correct x:1 in the Dockerfile"):
        Registry(uri, None, a_site(), written="x:1 in the Dockerfile").digest()
    with pytest.raises(ImageError, match=r"correct image_uri = 'docker://a\.org/x:1'"):
        Registry(uri, None, a_site()).digest()
