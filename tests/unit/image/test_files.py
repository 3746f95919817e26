"""The same view of a SquashFS and of a sandbox, with links that stay within."""

import os
from pathlib import Path
from typing import Any, Callable

import pytest

from sifmod.errors import ImageError
from sifmod.image import files as module
from sifmod.image.files import ImageFiles, SandboxFiles, SquashFsFiles
from sifmod.image.squashfs import SquashFs

from ..imagetrees import link, squashfs, write
from ..support import Need

Files = ImageFiles[Any]


@pytest.fixture(params=["squashfs", "sandbox"])
def files(request: pytest.FixtureRequest, tmp_path: Path, need: Need) -> Files:
    top = tmp_path / "image"
    write(tmp_path, "secret", "of the host")
    write(top, "/usr/lib/os-release", "ID=x")
    write(top, "/etc/inside", "of the image")
    link(top, "/etc/os-release", "../usr/lib/os-release")
    link(top, "/lib", "usr/lib")
    link(top, "/absolute", "/lib/os-release")
    link(top, "/out", "../../../../../../../etc/inside")
    link(top, "/up", "..")
    link(top, "/secret", str(tmp_path / "secret"))
    link(top, "/a", "b")
    link(top, "/b", "a")
    link(top, "/nowhere", "gone")
    os.mkfifo(top / "fifo")
    link(top, "/to-fifo", "fifo")
    if request.param == "sandbox":
        return SandboxFiles(top)
    path = squashfs(need("mksquashfs"), top, tmp_path / "x.squashfs")
    return SquashFsFiles(SquashFs(path.open("rb"), name="x", size=path.stat().st_size))


@pytest.mark.parametrize(
    "path", ["/usr/lib/os-release", "/etc/os-release", "/lib/os-release", "/absolute", "//lib/./os-release"]
)
def test_links_are_followed_within_the_image(files: Files, path: str) -> None:
    assert files.text(path) == "ID=x"
    assert files.resolved(path) == "/usr/lib/os-release"
    assert (files.is_file(path), files.is_directory(path), files.size(path)) == (True, False, 4)


def test_the_root_is_the_end(files: Files) -> None:
    assert files.text("/out") == "of the image"
    assert files.text("/../../etc/inside") == "of the image"
    assert files.resolved("/up") == "/"
    assert "etc" in files.names("/up/up/up")


@pytest.mark.parametrize(
    "path", ["/secret", "/a", "/nowhere", "/gone", "/fifo", "/to-fifo", "/etc/inside/below", "/fifo/..", "/etc"]
)
def test_what_is_no_file_of_the_image_has_no_content(files: Files, path: str) -> None:
    assert files.read(path) == b""
    assert not files.is_file(path)
    assert files.size(path) == 0
    assert files.names("/secret") == []


def test_a_limit_is_kept(files: Files) -> None:
    assert files.read("/etc/inside", start=3, limit=3) == b"the"
    assert files.read("/etc/inside", start=1 << 63) == b""  # a damaged ELF file asked for it
    assert files.names("/etc") == ["inside", "os-release"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_what_can_not_be_read_in_a_sandbox_counts_as_absent(tmp_path: Path) -> None:
    write(tmp_path, "closed/file", "x").chmod(0)
    files = SandboxFiles(tmp_path)
    assert files.text("/closed/file") == ""
    (tmp_path / "closed").chmod(0)
    assert SandboxFiles(tmp_path).names("/closed") == []
    (tmp_path / "closed").chmod(0o700)


# Limits


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set other limits for the files of an image."""

    def set_limits(**values: int) -> None:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)

    return set_limits


def test_no_more_names_are_listed_than_an_image_has(files: Files, limits: Callable[..., None]) -> None:
    limits(MOST_NAMES=5)
    assert files.names("/etc") == ["inside", "os-release"]
    assert files.names("/usr/lib") == ["os-release"]
    with pytest.raises(ImageError, match=f"reading '{files.name}' needs listing more than 5 file names"):
        files.names("/")


def test_no_more_time_is_taken_than_an_image_needs(files: Files, limits: Callable[..., None]) -> None:
    assert files.is_file("/etc/inside")
    limits(_MOST_SECONDS=-1)
    for look in (lambda: files.names("/usr"), lambda: files.read("/etc/inside")):
        with pytest.raises(ImageError, match=f"reading '{files.name}' needs more than -1 seconds"):
            look()


def test_only_some_paths_are_remembered(files: Files, limits: Callable[..., None]) -> None:
    limits(_MOST_PATHS=3)
    for number in range(20):
        assert files.resolved(f"/nothing-{number}") == ""
        assert files.resolved("/absolute") == "/usr/lib/os-release"
        assert len(files._known) <= 3


def test_a_path_that_the_kernel_would_not_take_is_none(files: Files, limits: Callable[..., None]) -> None:
    assert files.is_file("/" * 3000 + "/etc/inside")
    assert not files.is_file("/" * 5000 + "/etc/inside")
    assert not any(len(path) > 4096 for path in files._known)
    limits(_LONGEST_PATH=12)
    assert files.resolved("/lib") == "/usr/lib"
    assert files.resolved("/absolute") == ""
    assert files.resolved("/etc/inside") == "/etc/inside"
