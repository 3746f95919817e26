"""The same view of a SquashFS and of a sandbox, with links that stay within."""

import os
from pathlib import Path

import pytest

from sifmod.image.files import SandboxFiles, SquashFsFiles
from sifmod.image.squashfs import SquashFs

from ..imagetrees import link, squashfs, write


@pytest.fixture(params=["squashfs", "sandbox"])
def files(request: pytest.FixtureRequest, tmp_path: Path, need):
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
def test_links_are_followed_within_the_image(files, path: str) -> None:
    assert files.text(path) == "ID=x"
    assert files.resolved(path) == "/usr/lib/os-release"
    assert (files.is_file(path), files.is_directory(path), files.size(path)) == (True, False, 4)


def test_the_root_is_the_end(files) -> None:
    assert files.text("/out") == "of the image"
    assert files.text("/../../etc/inside") == "of the image"
    assert files.resolved("/up") == "/"
    assert "etc" in files.names("/up/up/up")


@pytest.mark.parametrize(
    "path", ["/secret", "/a", "/nowhere", "/gone", "/fifo", "/to-fifo", "/etc/inside/below", "/fifo/..", "/etc"]
)
def test_what_is_no_file_of_the_image_has_no_content(files, path: str) -> None:
    assert files.read(path) == b""
    assert not files.is_file(path)
    assert files.size(path) == 0
    assert files.names("/secret") == []


def test_a_limit_is_kept(files) -> None:
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
