"""What is read of files of the host, and which names are inside of a folder."""

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sifmod.errors import InstallError
from sifmod.host import files
from sifmod.host.files import (
    check_below,
    chosen,
    content_below,
    content_of,
    copy_below,
    inside,
    is_text,
    sha256_of,
    size_of,
    walk,
)

from ..support import exchanging


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file that exists."""
    path = tmp_path / "file"
    path.write_text("old")
    return path


@pytest.mark.timeout(240)  # reading would never end
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_never_ends_has_no_sha256(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "x")
    with pytest.raises(OSError, match="not a plain file"):
        sha256_of(tmp_path / "x")


@pytest.mark.timeout(240)  # reading a FIFO would wait for a writer
def test_only_a_plain_file_of_some_size_is_read_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert content_of(path) == b"old"
    monkeypatch.setattr(files, "_LARGEST", 2)
    with pytest.raises(OSError, match="larger than 2 bytes"):
        content_of(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a plain file"):
        content_of(path)


def test_the_size_of_what_is_missing_is_0(path: Path) -> None:
    assert size_of(path) == 3
    path.unlink()
    assert size_of(path) == 0
    path.symlink_to("nowhere")
    assert size_of(path) == 0


@pytest.mark.parametrize(("content", "expected"), [("é".encode(), True), (b"", True), (b"\xff", False)])
def test_a_file_is_text_if_it_can_be_read_as_utf_8(tmp_path: Path, content: bytes, expected: bool) -> None:
    (tmp_path / "x").write_bytes(content)
    assert is_text(tmp_path, "x") is expected


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder that somebody else filled; beside it is a secret."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "away").mkdir()
    top = tmp_path / "clone"
    (top / "sub").mkdir(parents=True)
    (top / "sub/file").write_text("mine")
    return top


@pytest.mark.parametrize(
    "target",
    [
        "../secret",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/dev/zero",
        "../clone-not",
        "../..",
        "sub/../../secret",
        "out/x",
    ],
)
def test_a_link_out_of_a_clone_is_not_followed(clone: Path, target: str) -> None:
    (clone.parent / "clone-not").write_text("a name that begins the same")
    (clone.parent / "x").touch()
    (clone / "out").symlink_to("..")
    (clone / "x").symlink_to(target)
    for look in (content_below, check_below):
        with pytest.raises(OSError, match=r"it leads out of its folder, to '(/|pipe|socket)"):
            look(clone, "x")


@pytest.mark.parametrize("target", ["sub/file", "sub/../sub/file", "within/file", "{real}/sub/file", "other"])
def test_a_link_within_a_clone_is_followed(clone: Path, target: str) -> None:
    (clone / "within").symlink_to("sub")
    (clone / "other").symlink_to("within/file")
    (clone / "x").symlink_to(target.format(real=clone.resolve()))
    assert content_below(clone, "x") == b"mine"
    check_below(clone, "x")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "sub/../../secret"])
def test_a_name_leads_out_of_a_clone_neither(clone: Path, name: str) -> None:
    with pytest.raises(OSError, match="it leads out of its folder"):
        content_below(clone, name)


def test_what_is_no_plain_file_is_refused_at_once(clone: Path) -> None:
    os.mkfifo(clone / "fifo")
    (clone / "x").symlink_to("fifo")
    for name in ("fifo", "x", "sub"):
        with pytest.raises(OSError, match="not a plain file"):
            content_below(clone, name)
    with pytest.raises(OSError, match="not a plain file"):
        check_below(clone, ".")
    with pytest.raises(OSError, match="larger than 3 bytes"):
        content_below(clone, "sub/file", longest=3)


def test_a_whole_folder_is_looked_at_with_the_folders_that_links_name(clone: Path) -> None:
    (clone / "sub/again").symlink_to("..")
    check_below(clone, "sub/again")
    (clone / "elsewhere/deep").mkdir(parents=True)
    (clone / "sub/side").symlink_to("../elsewhere")
    check_below(clone, "sub")
    (clone / "elsewhere/deep/x").symlink_to("../../../secret")
    with pytest.raises(OSError, match=r"it leads out of its folder, to '.*/secret'"):
        check_below(clone, "sub")


@pytest.mark.parametrize(
    ("name", "link", "target"),
    [
        ("clone/sub/file", "clone/sub/link", "../../secret"),
        ("clone/sub", "clone/link", "../away"),
        ("clone", "link", "private"),
    ],
)
def test_exchanged_names_show_nothing_of_outside(clone: Path, name: str, link: str, target: str) -> None:
    """What was looked at is what is read and copied, also if a folder on the way is exchanged."""
    top = clone.parent
    (top / "private/sub").mkdir(parents=True)
    for secret in (top / "private/sub/file", top / "away/file"):
        secret.write_text("secret")
    (top / link).symlink_to(target)
    seen = []
    with exchanging(top / name, top / link):
        for turn in range(300):
            with contextlib.suppress(OSError):
                seen.append(content_below(clone, "sub/file"))
            with contextlib.suppress(OSError):
                copy_below(clone, "sub", top / f"copy{turn}")
            seen += [path.read_bytes() for path in top.glob(f"copy{turn}/*") if not path.is_symlink()]
    assert {*seen} == {b"mine"}


def test_a_copy_has_links_and_times_and_gives_nobody_rights(clone: Path, tmp_path: Path) -> None:
    (clone / "sub/out").symlink_to("/etc/hostname")
    (clone / "sub/.venv").mkdir()
    (clone / "sub/file").chmod(0o6777)
    (clone / "sub").chmod(0o777)
    os.utime(clone / "sub/file", (1, 1))
    copy_below(clone, "sub", tmp_path / "copy", left_out=[".v*"])
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"file", "out"}
    assert (tmp_path / "copy/out").readlink() == Path("/etc/hostname")
    status = (tmp_path / "copy/file").stat()
    assert (status.st_mode & 0o7777, status.st_mtime) == (0o775, 1)
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == 0o775
    os.mkfifo(clone / "sub/fifo")
    with pytest.raises(OSError, match=f"not a plain file: '{clone}/sub/fifo'"):
        copy_below(clone, "sub", tmp_path / "again")


def test_a_folder_is_named_without_links_on_the_way(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("clone")
    with pytest.raises(OSError, match=f"a link on the way to it leads to '{clone}/sub'"):
        content_below(tmp_path / "link/sub", "file")
    path = chosen(tmp_path / "link/sub/../sub/file")
    assert content_below(path.parent, path.name) == b"mine"


@pytest.mark.parametrize("name", ["share/sifmod.json", "bin/python", "demo.sif", "share/not/there/yet"])
def test_names_of_an_installation_are_inside(tmp_path: Path, name: str) -> None:
    assert inside(tmp_path, name) == tmp_path / name


def test_an_installation_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert inside(tmp_path / "link", "bin/python") == tmp_path / "link/bin/python"


@pytest.mark.parametrize(
    "name",
    [
        *("../victim", "bin/../../victim", "/etc/passwd", "", ".", "a//b", "a/./b", "a\nb", "bin/\x1b[31m", "\x9b"),
        *("user-software/x", ".user-software.lock", "user-software.squashfs", "é" * 128, "a/" * 2048 + "a", "\ud800"),
    ],
)
def test_other_names_are_refused_and_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InstallError) as caught:
        inside(tmp_path, name)
    assert repr(name) in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("target", ["/etc", "..", "other", "gone", "bin"])
def test_a_folder_that_is_a_link_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "bin").symlink_to(target)
    for name in ("bin/python", "bin/more/python"):
        with pytest.raises(InstallError, match="'bin' is a symbolic link"):
            inside(tmp_path, name)


def test_a_tree_has_any_number_of_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    for _level in range(1000):
        Path("a").mkdir()
        os.chdir("a")
    os.chdir(tmp_path)
    found = list(walk(tmp_path))
    assert found[0] == (tmp_path, ["a"], ["loop"])
    assert len(found) == 1001
    errors: list[OSError] = []
    assert (list(walk(tmp_path / "none", errors)), len(errors)) == ([], 1)
    subprocess.run(["rm", "-rf", "--", "a"], check=True)  # pytest could not
