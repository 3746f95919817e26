"""The script that compares directories with packed files: what it makes of a listing of unsquashfs."""

import os
import runpy
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..imagetrees import squashfs, write

SCRIPT = Path(__file__).parents[2] / "golden" / "usr-python-generic" / "share" / "trees.py"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory):
    """The script's names, without what runs it."""
    text, found, _ = SCRIPT.read_text().partition("\ntry:\n    sys.exit(")
    assert found
    path = tmp_path_factory.mktemp("script") / "trees.py"
    path.write_text(text)
    return runpy.run_path(str(path))


@pytest.fixture
def tree(tmp_path: Path):
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


def listing(need, top, image):
    image.unlink(missing_ok=True)
    squashfs(need("mksquashfs"), top, image)
    done = subprocess.run([need("unsquashfs"), "-lln", image], capture_output=True, check=True)
    return done.stdout


def is_listed(trees, top, text):
    found = trees["scan"](os.fsencode(top), map)
    return trees["is_listed"](found, os.fsencode(top), text)


def test_threads_find_the_same(trees, tree) -> None:
    found = trees["scan"](os.fsencode(tree), map)
    assert found.keys() == {os.fsencode(path.relative_to(tree)) for path in tree.rglob("*")} | {b"."}
    with ThreadPoolExecutor(8) as pool:
        assert trees["scan"](os.fsencode(tree), pool.map) == found


def test_a_packed_tree_is_what_its_listing_says(trees, tree, tmp_path: Path, need) -> None:
    text = listing(need, tree, tmp_path / "image")
    assert is_listed(trees, tree, text)
    assert is_listed(trees, tree, b"Parallel unsquashfs: Using 2 processors\n8 inodes (5 blocks) to write\n\n" + text)
    assert not is_listed(trees, tree, b"")


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "new").touch(),
        lambda top: (top / "a-b").unlink(),
        lambda top: (top / "a" / "b" / "file").write_text("other"),
        lambda top: (top / "a" / "b" / "file").chmod(0o777),
        lambda top: (top / "a").chmod(0o750),
        lambda top: (top / "fifo").rename(top / "pipe"),
        lambda top: (top / "dangling -> link").unlink() or (top / "dangling -> link").symlink_to("no -> here"),
        lambda top: (top / "fifo").unlink() or (top / "fifo").mkdir(),
        lambda top: shutil.rmtree(top / "a"),
    ],
)
def test_a_change_is_seen(trees, tree, tmp_path: Path, need, change) -> None:
    text = listing(need, tree, tmp_path / "image")
    change(tree)
    assert not is_listed(trees, tree, text)


_NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"/" not in name and b"\0" not in name)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(_NAMES.filter(lambda name: name not in (b".", b"..")), max_size=8, unique=True))
def test_any_name_is_found_in_the_listing(trees, tmp_path: Path, need, names) -> None:
    top = tmp_path / "any"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    for number, name in enumerate(names):
        path = top / os.fsdecode(name)
        if number % 3:
            path.write_bytes(name)
        else:
            path.mkdir()
            (path / "in it").touch()
    assert is_listed(trees, top, listing(need, top, tmp_path / "image"))
