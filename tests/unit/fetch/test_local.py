"""Images that were built on this host: what identifies one, and what can't be had."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon import Daemon, daemon

from sifmod.errors import ImageError, RuntimeMissingError
from sifmod.fetch.local import local_digest, local_source
from sifmod.fetch.store import ImageStore
from sifmod.fetch.uri import ImageUri, image_uri
from sifmod.host.runtime import ContainerRuntime

from ..support import SIF_HEADER, a_site

ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")
AS_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")

# Has one image, whose ID is in a file beside it, and notes what it writes.
BUILDAH = """#!/bin/sh
id=$(cat "$0.id")
[ "$1" != image ] || shift
case "$1" in
    inspect)
        eval "wanted=\\${$#}"
        case "$wanted" in
            localhost/tool:1|${id#sha256:}) echo "$id" ;;
            odd:latest) echo 'a lock file is broken' >&2; exit 1 ;;
            *) echo "Error: $wanted: image not known" >&2; exit 125 ;;
        esac ;;
    push)
        echo "$4" >>"$0.pushed"
        file=${5#oci-archive:}
        echo archive >"${file%:image}" ;;
esac
"""
RUNTIME = """#!/bin/sh
[ "$1" != --version ] || exec echo fake version 1.0
echo "$*" >>"$0.calls"
case "$3" in oci-archive:*) grep -q archive "${3#oci-archive:}" || exit 1 ;; esac
cp "$0.image" "$2"
"""


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    # the path of a socket is at most 108 bytes long
    with tempfile.TemporaryDirectory(prefix="sifmod") as folder:
        path = Path(folder, "socket")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        with daemon(path, {"tool:1": ONE, "localhost:5000/group/tool:latest": TWO}) as server:
            yield server


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(params=["buildah", "podman"])
def buildah(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = script(tmp_path / "bin" / request.param, BUILDAH)
    Path(f"{path}.id").write_text(ONE if request.param == "podman" else ONE.partition(":")[2])
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin" if request.param == "buildah" else str(path.parent))
    if request.param == "podman":
        for name in ("cat", "cp", "grep"):
            (path.parent / name).symlink_to(f"/bin/{name}")
    return path


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    runtime = script(tmp_path / "bin" / "singularity", RUNTIME)
    Path(f"{runtime}.image").write_bytes(SIF_HEADER)
    return ImageStore(tmp_path / "store", ContainerRuntime(runtime), a_site(), print)


def calls(store: ImageStore) -> list[str]:
    path = Path(f"{store.runtime.path}.calls")
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("docker-daemon:tool:1", ONE),
        ("docker-daemon:localhost:5000/group/tool", TWO),
        (f"docker-daemon:tool:1@{TWO}", TWO),
    ],
)
def test_the_daemon_is_asked_for_the_id(docker: Daemon, text: str, digest: str) -> None:
    uri = image_uri(text)
    assert local_digest(uri) == digest
    assert local_source(uri, digest, Path("/none")) == f"docker-daemon:{digest}"
    assert image_uri(uri.pinned(digest)).digest == digest
    assert docker.saved == []


@pytest.mark.parametrize("host", ["tcp://localhost:1", "ssh://node"])
def test_a_daemon_of_another_host_is_asked_by_the_runtime_only(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    uri = image_uri("docker-daemon:tool")
    assert local_digest(uri) == ""
    assert local_source(uri, "", Path("/none")) == "docker-daemon:tool:latest"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("docker-daemon:tool:2", "has no image tool:2: see 'docker images'"),
        (f"docker-daemon:tool:1@sha256:{'0' * 64}", "it was built again and has another ID"),
    ],
)
@pytest.mark.usefixtures("docker")
def test_an_image_that_the_daemon_does_not_have(text: str, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        local_digest(image_uri(text))


@pytest.mark.parametrize("answer", [b"[]", b"{}", b'{"Id": "../x"}', b"no JSON", b"[" * 100_000])
def test_an_answer_that_is_none_is_one_sentence(docker: Daemon, answer: bytes) -> None:
    docker.answer = answer
    with pytest.raises(ImageError, match="docker daemon"):
        local_digest(image_uri("docker-daemon:tool:1"))


def test_without_daemon_or_storage_the_message_names_a_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(ImageError, match=r"docker save --output /path/image.tar tool:1' where the image is"):
        local_digest(image_uri("docker-daemon:tool:1"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeMissingError, match=r"'buildah push tool:1 oci-archive:/path/image.tar'"):
        local_digest(image_uri("containers-storage:tool:1"))


@AS_ROOT
def test_a_daemon_that_is_not_for_you(docker: Daemon) -> None:
    docker.path.chmod(0)
    with pytest.raises(ImageError, match="you may not use the docker daemon"):
        local_digest(image_uri("docker-daemon:tool:1"))


def test_the_storage_is_read_through_the_command_that_filled_it(buildah: Path, tmp_path: Path) -> None:
    uri = image_uri("containers-storage:localhost/tool:1")
    assert local_digest(uri) == ONE
    assert local_source(uri, ONE, tmp_path) == f"oci-archive:{tmp_path}/image.tar"
    assert Path(f"{buildah}.pushed").read_text() == f"{ONE.partition(':')[2]}\n"
    assert local_digest(image_uri(f"containers-storage:localhost/tool:1@{ONE}")) == ONE


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("localhost/tool:2", "other users' images are not in, has no image localhost/tool:2"),
        (f"localhost/tool:1@{TWO}", "has another ID"),
        ("odd", "a lock file is broken"),
    ],
)
@pytest.mark.usefixtures("buildah")
def test_an_image_that_the_storage_does_not_have(name: str, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        local_digest(image_uri(f"containers-storage:{name}"))


def test_an_image_that_was_built_again_is_fetched_again(store: ImageStore, docker: Daemon) -> None:
    uri = image_uri("docker-daemon:tool:1")
    assert store.pull(uri)[1].digest == store.pull(uri)[1].digest == ONE
    assert len(calls(store)) == 1
    docker.ids["tool:1"] = TWO
    assert store.pull(uri)[1].digest == TWO
    assert [line.rpartition(" ")[2] for line in calls(store)] == [f"docker-daemon:{ONE}", f"docker-daemon:{TWO}"]


def test_a_copy_is_used_without_the_daemon(store: ImageStore, docker: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = image_uri(f"docker-daemon:tool:1@{ONE}")
    for uri in (image_uri("docker-daemon:tool:1"), pinned):
        store.pull(uri)
    docker.ids["tool:1"] = TWO
    store.pull(pinned)
    monkeypatch.setenv("DOCKER_HOST", "unix:///none")
    store.pull(image_uri("docker-daemon:tool:1"))
    assert len(calls(store)) == 2


@pytest.mark.usefixtures("buildah")
def test_an_archive_of_the_storage_is_made_for_the_runtime_and_removed(store: ImageStore, tmp_path: Path) -> None:
    _path, stored = store.pull(image_uri("containers-storage:localhost/tool:1"))
    assert stored.digest == ONE
    assert "oci-archive:" in calls(store)[0]
    assert not [path for path in (tmp_path / "store").rglob("*") if path.suffix == ".tar"]


@pytest.mark.parametrize("scheme", ["docker-daemon", "containers-storage"])
@pytest.mark.parametrize(
    "location",
    [
        "",
        "//tool",
        "/tool",
        "-x",
        "--all",
        "[vfs@/x]tool",
        "tool:1:2",
        "Tool",
        "a//b",
        "tool:",
        f"tool@{ONE[:-1]}",
        "a@b",
    ],
)
def test_what_is_no_reference_is_refused(scheme: str, location: str) -> None:
    with pytest.raises(ValueError, match=r"write"):
        ImageUri.parse(f"{scheme}:{location}")


@given(st.text(max_size=30))
def test_a_reference_never_becomes_an_option_or_a_path(text: str) -> None:
    for scheme in ("docker-daemon", "containers-storage"):
        try:
            uri = ImageUri.parse(f"{scheme}:{text}")
        except ValueError:
            continue
        assert text[0].isalnum()
        assert ".." not in text
        assert uri.repository + uri.tag
