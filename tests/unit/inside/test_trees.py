"""The program that reads directories and packed files: what it makes of a listing of unsquashfs, and of metadata."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_name
from tests.lacking import lacking
from tests.programs import write_file, write_program

from sifmod.inside import trees
from sifmod.text.package import package_of
from sifmod.usersoftware.tree import first_of_each

from ..imagetrees import squashfs, write
from ..support import Need


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    write(top, "a/b/file", "text")
    write(top, "a-b", "sorts before a/b, and after a")
    (top / "dangling -> link").symlink_to("no -> where")
    (top / os.fsdecode(b"not-\xff-utf8\nand a line")).write_text("odd")
    os.link(top / "a-b", top / "hard")
    os.mkfifo(top / "fifo")
    (top / "a").chmod(0o2750)
    (top / "a-b").chmod(0o4711)
    return top


def listing(need: Need, top: Path, image: Path) -> bytes:
    image.unlink(missing_ok=True)
    squashfs(need("mksquashfs"), top, image)
    done = subprocess.run([need("unsquashfs"), "-lln", image], capture_output=True, check=True)
    return done.stdout


def replace_by(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def is_listed(top: Path, text: bytes) -> bool:
    return trees.is_listed(trees.scan(os.fsencode(top), map), os.fsencode(top), text)


def test_threads_find_the_same_and_the_listing_says_what_was_packed(tree: Path, tmp_path: Path, need: Need) -> None:
    found = trees.scan(os.fsencode(tree), map)
    assert found.keys() == {os.fsencode(path.relative_to(tree)) for path in tree.rglob("*")} | {b"."}
    with ThreadPoolExecutor(8) as pool:
        assert trees.scan(os.fsencode(tree), pool.map) == found
    text = listing(need, tree, tmp_path / "image")
    assert is_listed(tree, text)
    assert is_listed(tree, b"Parallel unsquashfs: Using 2 processors\n8 inodes (5 blocks) to write\n\n" + text)
    assert not is_listed(tree, b"")


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "new").touch(),
        lambda top: (top / "a-b").unlink(),
        lambda top: (top / "a" / "b" / "file").write_text("other"),
        lambda top: (top / "a" / "b" / "file").chmod(0o777),
        lambda top: (top / "a").chmod(0o750),
        lambda top: (top / "fifo").rename(top / "pipe"),
        lambda top: replace_by(top / "dangling -> link", lambda path: path.symlink_to("no -> here")),
        lambda top: replace_by(top / "fifo", Path.mkdir),
        lambda top: shutil.rmtree(top / "a"),
    ],
)
def test_a_change_is_seen(tree: Path, tmp_path: Path, need: Need, change: Callable[[Path], object]) -> None:
    text = listing(need, tree, tmp_path / "image")
    change(tree)
    assert not is_listed(tree, text)


_NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"/" not in name and b"\0" not in name)


@settings(max_examples=30)
@given(names=st.lists(_NAMES.filter(lambda name: name not in (b".", b"..")), max_size=8, unique=True))
def test_any_name_is_found_in_the_listing(tmp_path: Path, need: Need, names: list[bytes]) -> None:
    top = tmp_path / "any"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    for number, name in enumerate(names):
        path = top / os.fsdecode(name)
        if number % 3:
            path.write_bytes(name)
        else:
            write_file(path / "in it")
    assert is_listed(top, listing(need, top, tmp_path / "image"))


METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n\nName: not this one\n"


def folder_of_packages(top: Path) -> Path:
    """Make a folder of packages with all that pip and its like leave in one."""
    write(top, "Torch-2.0.dist-info/METADATA", METADATA.format("Torch", "2.0+cpu"))
    write(top, "a_b-1.egg-info/PKG-INFO", METADATA.format("a_b", "1"))
    write(top, "distutils-3.egg-info", METADATA.format("distutils.made", "3"))
    write(top, "~orch-1.0.dist-info/METADATA", METADATA.format("torch", "1.0"))
    write(top, "stub_for_uv-v1.dist-info/METADATA", METADATA.format("stub-for-uv", "1"))
    write(top, "half-1.dist-info/RECORD", "")
    write(top, "nameless-1.dist-info/METADATA", "Metadata-Version: 2.1\n")
    write(top, "spelt_twice-1.dist-info/METADATA", METADATA.format("Spelt.Twice", "1"))
    write(top, "spelt_twice.egg-info/PKG-INFO", METADATA.format("spelt-twice", "0"))
    for seeded in ("pip", "Setup_Tools", "SetupTools", "wheel"):
        write(top, f"{seeded}-1.dist-info/METADATA", METADATA.format(seeded, "1"))
    return top


EXPECTED = ["a_b==1", "distutils.made==3", "Setup_Tools==1", "Spelt.Twice==1", "Torch==2.0+cpu"]


def test_packages_are_listed_as_pip_reads_them(tmp_path: Path) -> None:
    assert trees.requirements([str(folder_of_packages(tmp_path / "[x]"))]) == EXPECTED
    folder_of_packages(tmp_path / "lib" / "python3.6" / "site-packages")
    done = run("packages", tmp_path)
    assert (done.returncode, done.stdout.decode().splitlines(), done.stderr) == (0, EXPECTED, b"")


@pytest.mark.timeout(240)  # reading would never end
def test_metadata_without_an_end_have_no_version(tmp_path: Path) -> None:
    write(tmp_path, "a-1.dist-info/METADATA", METADATA.format("a", "1"))
    for name in ("fifo", "zero"):
        (tmp_path / f"{name}-1.dist-info").mkdir()
    os.mkfifo(tmp_path / "fifo-1.dist-info/METADATA")
    os.mkfifo(tmp_path / "itself.egg-info")
    (tmp_path / "zero-1.dist-info/METADATA").symlink_to("/dev/zero")
    assert trees.requirements([str(tmp_path)]) == ["a==1"]


@pytest.mark.parametrize(
    ("note", "address"),
    [
        ('{"url": "file:///home/x y/é", "dir_info": {"editable": true}}', "file:///home/x%20y/%C3%A9"),
        ('{"url": "https://u:p@host/a.whl?x=1&y", "archive_info": {}}', "https://host/a.whl?x=1&y"),
        (
            '{"url": "ssh://git@host/a", "vcs_info": {"vcs": "git", "commit_id": "c0"}, "subdirectory": "b"}',
            "git+ssh://git@host/a@c0#subdirectory=b",
        ),
        *((note, "unknown") for note in ("", "[]", "{}", '{"url": 5}', '{"url": "x"}', '{"url": "a://\\ud800"}')),
        *((note, "unknown") for note in ('{"url": "a://[x"}', '{"url": "a://b", "vcs_info": 1}', "[" * 9999)),
    ],
)
def test_what_came_from_no_index_is_listed_with_its_address(tmp_path: Path, note: str, address: str) -> None:
    (tmp_path / "a-1.dist-info").mkdir()
    (tmp_path / "a-1.dist-info/METADATA").write_text("Name: a\nVersion: 1\n")
    (tmp_path / "a-1.dist-info/direct_url.json").write_text(note, encoding="utf-8")
    (line,) = trees.requirements([str(tmp_path)])
    assert line == f"a @ {address}  # 1"
    assert package_of(line) == ("a", "1")
    assert first_of_each(f"{line}\nA==2\n") == f"{line}\n"
    assert package_of("a @ file:///x") is None


def test_what_can_not_be_read_has_no_version(tmp_path: Path) -> None:
    write(tmp_path, "a-1.dist-info/METADATA/folder", "")
    assert trees.requirements([str(tmp_path), str(tmp_path / "not there")]) == []


@pytest.mark.parametrize("name", ["a", "A", "a.b", "a__b", "a-._b", "Foo-Bar.baz_1"])
def test_names_are_compared_as_pip_does(name: str) -> None:
    assert trees.canonical(name) == canonicalize_name(name)


def run(*words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-I", trees.__file__, *words], input=stdin, capture_output=True, check=False)


def test_the_program_compares_and_names_what_differs(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tree, other, symlinks=True, ignore=shutil.ignore_patterns("fifo"))
    (tree / "fifo").unlink()
    assert run("compare", tree, other, "full").returncode == 0
    (other / "a" / "b" / "file").write_text("TEXT")
    assert run("compare", tree, other, "sizes").returncode == 0
    done = run("compare", tree, other, "full")
    assert (done.returncode, done.stderr) == (1, b"differs: 'a/b/file'\n")


def test_the_comparison_says_how_far_it_is_also_while_nothing_is_counted(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tree / "fifo").unlink()
    (tree / "large").write_bytes(bytes(3 << 20))
    shutil.copytree(tree, tmp_path / "other", symlinks=True)

    def not_listed(*_given: object) -> bool:
        signal.raise_signal(signal.SIGALRM)  # which comes once a minute
        return False

    def half(*given: Any) -> set[bytes]:
        given[-1].advance(2 << 20)
        signal.raise_signal(signal.SIGALRM)
        return set()

    monkeypatch.setattr(trees, "is_listed", not_listed)
    monkeypatch.setattr(trees, "confirmed", half)
    assert trees.compare(str(tree), str(tmp_path / "other"), "full") == 0
    assert capfd.readouterr().err.splitlines() == ["comparing: 0:00 passed", "comparing: 2 of 3 MiB, 0:00 left"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)

    def unreadable(*_given: object) -> bool:
        not_listed()
        raise OSError("why")

    # on a terminal the line is taken away before it is said what is wrong
    monkeypatch.setattr(os, "isatty", lambda _descriptor: True)
    monkeypatch.setattr(trees, "is_listed", unreadable)
    monkeypatch.setattr(sys, "argv", ["trees.py", "compare", str(tree), str(tmp_path / "other"), "full"])
    assert trees.main() == 1
    line = "\r\x1b[K"
    assert capfd.readouterr().err == f"{line}comparing: 0:00 passed{line}can't be read: why\n"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


NAMES = ("plain", "a b", 'q"uo\\te', "new\nline", "line", "#", "empty", "large", "folder/-", "folder/\udcff")


def packed_as_stream(tree: Path, packed: Path) -> tuple[bytes, bytes]:
    """Pack a tree; return what make-squashfs compares it by: the listing, and all bytes."""
    subprocess.run(["mksquashfs", tree, packed, "-noappend", "-no-xattrs", "-quiet", "-no-progress"], check=True)
    say = ["unsquashfs", "-no-progress"]
    listing, contents = (
        subprocess.run([*say, *words, packed], check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"})
        for words in (["-lln"], ["-pf", "/dev/stdout"])
    )
    return listing.stdout, contents.stdout


@pytest.mark.skipif(not shutil.which("unsquashfs"), reason="unsquashfs is not installed")
def test_what_unsquashfs_writes_need_not_be_read_through_the_mount(tmp_path: Path) -> None:
    tree, other = tmp_path / "tree", tmp_path / "other"
    for name in NAMES:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty" else name * (200_000 if name == "large" else 1), errors="surrogateescape")
    os.link(tree / "plain", tree / "second")
    listing, contents = packed_as_stream(tree, tmp_path / "packed")
    shutil.copytree(tree, other)
    for path in other.rglob("*"):  # what is read through the "mount" differs
        if path.is_file():
            path.write_bytes(bytes(path.stat().st_size))
    whole = run("compare", tree, other, "full", stdin=listing + b"\0" + contents)
    # these names, or that they are the same, are not read from the stream
    assert (whole.returncode, whole.stderr.decode().splitlines()) == (
        1,
        ["differs: 'line'", "differs: 'new\\nline'", "differs: 'second'"],
    )
    half, unknown = contents[: len(contents) // 2], contents.replace(b"# START OF", b"# ")
    for part in (b"", half, unknown, b"\0" * 99, contents.replace(b"plain", b"plein")):
        done = run("compare", tree, other, "full", stdin=listing + b"\0" + part)
        assert (done.returncode, b"differs: 'plain'" in done.stderr) == (1, True)
    (tree / "large").write_text("other" * 200_000)
    assert b"differs: 'large'" in run("compare", tree, other, "full", stdin=listing + b"\0" + contents).stderr


def test_the_program_gives_set_id_bits_back(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tree / "a", other / "a")
    shutil.copy(tree / "a-b", other / "a-b")
    (other / "a").chmod(0o750)
    (tree / "hard").unlink()
    assert run("set-id-bits", tree, other).returncode == 0
    assert [stat.S_IMODE((other / name).stat().st_mode) for name in ("a", "a-b")] == [0o2750, 0o4711]


def test_the_program_says_what_can_not_be_read_or_fit(tmp_path: Path, tree: Path) -> None:
    done = run("compare", tmp_path / "gone", tmp_path, "sizes")
    assert done.returncode == 1
    assert done.stderr.startswith(b"can't be read: ")
    (tree / "large").write_bytes(bytes(1000))
    done = run("tar", tree, "10", tree)
    assert (done.returncode, done.stdout) == (8, b"")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Make a virtual environment with a module that opens a file, and one that can't be imported."""
    venv = tmp_path / "tree" / "venv"
    write(venv, "lib/zzz.py", "open(__file__[:-3] + '.dat').close()\n")
    write(venv, "lib/zzz.dat", "data")
    write(venv, "lib/aaa.py", "raise ValueError('broken')\n")
    write(venv, "lib/a.so.1", "")
    write(venv, "lib/b.pyc", "")
    write_program(venv / "bin" / "python", f'#!/bin/sh\nPYTHONPATH={venv}/lib exec {sys.executable} "$@"\n')
    return venv


def test_what_an_import_opens_comes_first_and_one_that_fails_is_named(venv: Path) -> None:
    done = run("order", venv.parent, venv, "zzz")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    names = [line.split()[0] for line in lines]
    assert names == [
        f"venv/{name}" for name in ("lib/zzz.py", "lib/zzz.dat", "lib/b.pyc", "lib/a.so.1", "bin/python", "lib/aaa.py")
    ]
    priorities = [int(line.split()[1]) for line in lines]
    assert priorities == sorted(priorities, reverse=True)
    done = run("order", venv.parent, venv, "aaa")
    assert done.returncode == 5
    assert b"ValueError: broken" in done.stderr
    assert done.stderr.endswith(b"importing aaa failed\n")


def test_the_archive_has_everything_in_that_order(tree: Path, venv: Path) -> None:
    done = run("tar", tree, str(1 << 30), venv, "zzz")
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        found = archive.getmembers()
        assert [one.name for one in found if one.isdir()] == [one.name for one in found][
            : sum(one.isdir() for one in found)
        ]
        assert {one.name for one in found} == {str(path.relative_to(tree)) for path in tree.rglob("*")}
        assert next(one.name for one in found if not one.isdir()) == "venv/lib/zzz.py"
        assert next(one for one in found if one.name == "a-b").mode == 0o4711
        assert sum(one.islnk() for one in found) == 1


def packing(directory: Path, packed: Path) -> subprocess.CompletedProcess[bytes]:
    """Compare as packing does: with a time since when nothing has changed, and a virtual environment."""
    return run("compare", directory, packed, "sizes", "4102444800.000000000", directory / "venv")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys\nprint(sys.argv[1])\nsys.exit(1)", b"1\nword\n\n"),
        ("print('name')", b"0\nname\n\n"),
        ("raise MemoryError", b"2\n\n"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", b"2\n\n"),
    ],
)
def test_a_program_runs_beside_the_comparison(tmp_path: Path, program: str, said: bytes) -> None:
    info = tmp_path / "same/venv/lib/python3.11/site-packages/own-1.0.dist-info"
    write_file(info / "METADATA", "Name: own\nVersion: 1.0\n")
    (tmp_path / "program.py").write_text(program)
    same, since = tmp_path / "same", "4102444800.000000000"
    words = (since, same / "venv", tmp_path / "program.py", "word")
    done = run("compare", same, same, "sizes", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, said + b"own==1.0\n", b"")
    (tmp_path / "other").mkdir()
    done = run("compare", same, tmp_path / "other", "sizes", *words)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_socket_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "left").mkdir()
    monkeypatch.chdir(tmp_path)  # the path of a socket has 107 characters at most
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("left/server")
        done = packing(tmp_path / "left", tmp_path / "left")
        read_ahead = run("tar", tmp_path / "left", str(1 << 30), tmp_path)
    expected = b"'server' is a socket, which can't be unpacked again: end its program, or remove it\n"
    assert (done.returncode, done.stderr) == (1, expected)
    assert (read_ahead.returncode, read_ahead.stderr) == (1, b"can't be read: " + expected)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("venv/demo/lib", "../../.."),
        ("venv/demo/bin", "/nowhere"),
        ("venv/demo/lib64", "../../lib"),
        ("venv/demo/lib/python3.11/site-packages", "/etc"),
        ("venv/demo", "../../elsewhere"),
        ("venv", "/"),
    ],
)
def test_a_folder_of_an_environment_that_is_elsewhere_is_not_packed(tmp_path: Path, name: str, target: str) -> None:
    folder = tmp_path / "tree" / name
    folder.parent.mkdir(parents=True)
    folder.symlink_to(target)
    done = packing(tmp_path / "tree", tmp_path / "tree")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"{name!r} is a link to {target!r}, out of user software\n"


def test_usual_links_of_an_environment_are_packed(tmp_path: Path) -> None:
    (tmp_path / "venv/demo/lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "venv/demo/lib64").symlink_to("lib")
    (tmp_path / "venv/newest").symlink_to("demo")
    (tmp_path / "venv/demo/lib/python3.11/site-packages/data").symlink_to("/etc")
    assert trees.links_out(str(tmp_path)) == []
    assert packing(tmp_path, tmp_path).returncode == 0


def test_times_that_squashfs_has_not_are_named(tmp_path: Path) -> None:
    for number, seconds in enumerate((-1, 1 << 32, 0, (1 << 32) - 1)):
        (tmp_path / str(number)).touch()
        os.utime(tmp_path / str(number), (seconds, seconds))
    done = packing(tmp_path, tmp_path)
    assert done.returncode == 0
    assert done.stderr == b"note: the times of '0' and 1 more change: SquashFS has times from 1970 to 2106\n"


def test_attributes_that_are_not_packed_are_named_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
        try:
            os.setxattr(tmp_path / name, "user.mine", b"x")
        except OSError:
            lacking("this file system has no extended attributes")
    done = packing(tmp_path, tmp_path)
    assert done.returncode == 0
    assert done.stderr == b"note: extended attributes and ACLs are not packed (user.mine): those of 'a' and 1 more\n"


def test_a_record_of_modes_counts_for_the_folders_that_are_there(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tree / "fifo").unlink()
    shutil.copytree(tree, other, symlinks=True)
    entries = ["2750 ./a", f"{stat.S_IMODE(tree.stat().st_mode):o} ./", "777 ./gone", "777 ./a-b", "x ./a/b"]
    (tree / trees.FOLDER_MODES).write_text("".join(f"{entry}\0" for entry in entries))
    (tree / "a").chmod(0o550)
    assert run("compare", tree, other, "full").returncode == 0
    (tree / "a" / "b").chmod(0o500)
    assert run("compare", tree, other, "full").stderr == b"differs: 'a/b'\n"


def test_what_only_one_side_has_is_named(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tree / "fifo").unlink()
    shutil.copytree(tree, other, symlinks=True)
    (tree / "new -> link").symlink_to("x")
    (other / "a-b").unlink()
    (other / "theirs").touch()
    done = run("compare", tree, other, "full")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "only in the directory: 'a-b'",
        "only in the directory: 'new -> link'",
        "only in the packed file: 'theirs'",
    ]
