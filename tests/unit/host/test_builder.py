"""What builds Dockerfiles: which command is found, what it is started with, and what is said where none can build."""

import os
from pathlib import Path

import pytest

from sifmod.errors import ImageError, RuntimeMissingError
from sifmod.host.builder import BuildFolder, ImageBuilder, find_builder

from ..support import Stubs, a_site


def stand_in(folder: Path, name: str, script: str) -> ImageBuilder:
    return ImageBuilder(Stubs(folder)(name, script))


@pytest.fixture(autouse=True)
def _ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("STORAGE_DRIVER", raising=False)


def test_the_host_s_first_builder_or_the_site_s_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match=r"looked for buildah, podman, docker on PATH\. Install"):
        find_builder(a_site())
    docker, podman = (stand_in(tmp_path, name, "exit 1") for name in ("docker", "podman"))
    assert find_builder(a_site()) == podman
    assert find_builder(a_site(image_builder="docker")) == docker
    with pytest.raises(RuntimeMissingError, match="looked for buildah on PATH"):
        find_builder(a_site(image_builder="buildah"))


@pytest.mark.parametrize("name", ["buildah", "podman"])
def test_a_user_without_subordinate_ids_is_told_whom_to_ask(tmp_path: Path, name: str) -> None:
    stand_in(tmp_path, name, "echo '0 1000 1'; echo '1 100000 65536'").check()
    with pytest.raises(ImageError, match=r"no subordinate user ids .*usermod --add-subuids .*image\.def"):
        stand_in(tmp_path, name, "echo '0 1000 1'").check()
    with pytest.raises(ImageError, match=r"can't make a user namespace for you on this node.*: no newuidmap"):
        stand_in(tmp_path, name, "echo no newuidmap >&2; exit 1").check()


def test_docker_s_service_and_root_need_no_subordinate_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "docker", "exit 1").check()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    stand_in(tmp_path, "buildah", "exit 1").check()


@pytest.mark.parametrize("name", ["buildah", "podman"])
@pytest.mark.parametrize(("script", "driver"), [("exit 0", "overlay"), ("exit 1", "vfs")])
def test_all_storage_is_in_the_folder(tmp_path: Path, name: str, script: str, driver: str) -> None:
    folder = BuildFolder(stand_in(tmp_path, name, script), tmp_path)
    build, save = folder.commands(["--target", "x"])
    image = build[build.index("--tag") + 1]
    # podman takes no long one
    runroot = f"/tmp/{image}" if name == "podman" else f"{tmp_path}/storage/run"
    storage = f"--root {tmp_path}/storage/root --runroot {runroot} --storage-driver {driver}"
    assert " ".join(build) == (
        f"{tmp_path}/{name} {storage} build --isolation chroot --format docker --layers=false --target x "
        f"--tag {image} --file {tmp_path}/Dockerfile {tmp_path}/context"
    )
    archive = f"{tmp_path}/image.tar"
    assert " ".join(save) == f"{tmp_path}/{name} {storage} push --format oci {image} oci-archive:{archive}:latest"
    environ = folder.environment({"PATH": "/bin", "TMPDIR": "/tmp/mine"})
    assert environ.pop("PATH") == "/bin"
    assert ("XDG_RUNTIME_DIR" in environ) == (name == "buildah")
    assert all(Path(place).is_relative_to(tmp_path) for place in environ.values())
    assert folder.archive_scheme == "oci-archive"
    if name == "podman":
        Path(runroot).chmod(0o755)
        with pytest.raises(ImageError, match="is not a folder of yours alone"):
            folder.commands([])
        folder.remove()
        assert not Path(runroot).exists()


def test_the_user_s_own_storage_driver_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_DRIVER", "btrfs")
    assert "--storage-driver" not in BuildFolder(stand_in(tmp_path, "buildah", "exit 0"), tmp_path).commands([])[0]


def test_docker_is_asked_for_an_archive_and_to_forget_the_image(tmp_path: Path) -> None:
    folder = BuildFolder(stand_in(tmp_path, "docker", 'echo "$*" >>"$0.calls"'), tmp_path)
    build, save = folder.commands(["--build-arg", "A=b"])
    image = save[-1]
    assert " ".join(build) == (
        f"{tmp_path}/docker build --no-cache --force-rm --build-arg A=b --tag {image} "
        f"--file {tmp_path}/Dockerfile {tmp_path}/context"
    )
    assert " ".join(save) == f"{tmp_path}/docker save --output {tmp_path}/image.tar {image}"
    assert folder.archive_scheme == "docker-archive"
    assert folder.environment({"DOCKER_HOST": "x"}) == {"DOCKER_HOST": "x"}
    folder.drop_image()
    assert (tmp_path / "docker.calls").read_text() == f"image rm --force {image}\n"


@pytest.mark.parametrize(
    ("name", "script", "knows"),
    [
        ("docker", "echo 'the --mount option requires BuildKit' >&2; exit 1", (False, False)),
        # BuildKit: what is run is not in the image
        (
            "docker",
            "case $(cat $5/Dockerfile) in *COPY*) ;; *) echo 'no such file: /x' >&2; exit 1 ;; esac",
            (True, True),
        ),
        ("buildah", "exit 0", (True, True)),
        ("buildah", "exit 125", (False, True)),
    ],
)
def test_features_of_a_builder_are_tried(tmp_path: Path, name: str, script: str, knows: tuple[bool, bool]) -> None:
    folder = BuildFolder(stand_in(tmp_path, name, f"#\n{script}"), tmp_path)
    assert (folder.knows_heredocs(), folder.knows_mounts()) == knows
