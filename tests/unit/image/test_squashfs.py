"""The reader of SquashFS, against what the real packer writes, and against what it never would."""

import contextlib
import os
import struct
import time
import tracemalloc
import zlib
from ctypes import sizeof
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySquashfsImage.structure import Superblock
from PySquashfsImage.util import MAGIC_BYTES

from sifmod.errors import ImageError
from sifmod.image import superblock
from sifmod.image.files import SquashFsFiles
from sifmod.image.squashfs import SquashFs

from ..imagetrees import one_listing, squashfs, write
from ..support import Need

COMPRESSORS = ["gzip", "lzma", "lzo", "lz4", "xz", "zstd"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree whose files are of every kind of storage: blocks, sparse blocks, fragments, none."""
    top = tmp_path_factory.mktemp("tree")
    write(top, "empty")
    write(top, "small", "small\n")
    write(top, "a/b/c/deep", "deep\n")
    (top / "blocks").write_bytes(b"0123456789abcdef" * 32768)  # 4 blocks of 128 KiB, and nothing behind
    (top / "tail").write_bytes(os.urandom(300_000))
    with (top / "sparse").open("wb") as stream:
        stream.seek(1_000_000)
        stream.write(b"end")
    (top / "link").symlink_to("a/b/c/deep")
    (top / "line\nbreak").write_text("odd")
    (top / os.fsdecode(b"not-\xff-utf8")).write_text("odd")
    os.mkfifo(top / "fifo")
    for number in range(600):  # more entries than a listing's header counts, more fragments than a block describes
        write(top, f"many/file-{number:04}", f"{number}\n")
    return top


@pytest.fixture(scope="module", params=COMPRESSORS)
def packed(
    request: pytest.FixtureRequest, tree: Path, tmp_path_factory: pytest.TempPathFactory, need: Need
) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("packed") / f"{request.param}.squashfs"
    return request.param, squashfs(need("mksquashfs"), tree, path, "-comp", request.param)


def opened(path: Path) -> SquashFs:
    stream = path.open("rb")
    return SquashFs(stream, name=str(path), size=path.stat().st_size)


def read_all(files: SquashFsFiles, path: str = "") -> dict[str, bytes]:
    """Return everything that is in the image, by path."""
    found: dict[str, bytes] = {}
    for name in files.names(path or "/"):
        here = f"{path}/{name}"
        if files.is_directory(here) and path.count("/") < 20:  # a damaged one may hold itself
            found.update(read_all(files, here))
        elif files.is_file(here):
            found[here] = files.read(here, limit=1 << 24)
    return found


def test_every_file_is_as_it_was_packed(tree: Path, packed: tuple[str, Path]) -> None:
    compressor, path = packed
    image = opened(path)
    assert (image.compression, image.block_size) == (compressor, 131072)
    expected = {f"/{item.relative_to(tree)}": item.read_bytes() for item in tree.rglob("*") if item.is_file()}
    assert read_all(SquashFsFiles(image)) == expected


@pytest.mark.parametrize("options", [("-noI", "-noD", "-noF"), ("-b", "4K"), ("-b", "1M"), ("-no-fragments",)])
def test_every_way_of_packing_is_read(tree: Path, tmp_path: Path, need: Need, options: tuple[str, ...]) -> None:
    path = squashfs(need("mksquashfs"), tree, tmp_path / "x.squashfs", *options)
    files = SquashFsFiles(opened(path))
    for name in ("tail", "blocks", "sparse", "small", "empty"):
        assert files.read(f"/{name}", limit=1 << 24) == (tree / name).read_bytes()


@pytest.mark.parametrize("start", [0, 1, 131071, 131072, 262144, 299_999, 300_000, 400_000])
@pytest.mark.parametrize("limit", [0, 1, 4096, 131072, 1_000_000])
def test_a_piece_is_that_of_the_file(tree: Path, packed: tuple[str, Path], start: int, limit: int) -> None:
    whole = (tree / "tail").read_bytes()
    assert SquashFsFiles(opened(packed[1])).read("/tail", start=start, limit=limit) == whole[start : start + limit]


def test_only_what_is_asked_for_is_read(tmp_path: Path, need: Need) -> None:
    """Reading one file of a big image: a few blocks, however many files there are."""
    top = tmp_path / "tree"
    for number in range(5000):
        write(top, f"d{number % 50}/file-{number}", str(number) * 50)
    path = squashfs(need("mksquashfs"), top, tmp_path / "x.squashfs")
    counted = []

    class Counting(SquashFs):
        def _raw(self, position: int, length: int) -> bytes:
            counted.append(length)
            return super()._raw(position, length)

    with path.open("rb") as stream:
        files = SquashFsFiles(Counting(stream, name="x", size=path.stat().st_size))
        assert files.text("/d7/file-7") == "7" * 50
    assert len(counted) < 20
    assert sum(counted) < path.stat().st_size / 3


def damaged(path: Path, position: int, value: bytes) -> Path:
    data = bytearray(path.read_bytes())
    data[position : position + len(value)] = value
    target = path.with_name("damaged.squashfs")
    target.write_bytes(bytes(data))
    return target


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, need: Need) -> Path:
    top = tmp_path_factory.mktemp("small")
    write(top, "usr/bin/python3")
    write(top, "usr/lib/x", "x" * 5000)
    (top / "link").symlink_to("usr/lib/x")
    path = tmp_path_factory.mktemp("image") / "small.squashfs"
    return squashfs(need("mksquashfs"), top, path, "-comp", "gzip")


@pytest.mark.parametrize(
    ("position", "value", "said"),
    [
        (0, b"sqsh", "does not contain a SquashFS"),
        (28, struct.pack("<2H", 3, 1), "version 3.1"),
        (20, struct.pack("<H", 99), "compressor 99 is unknown"),
        (12, struct.pack("<I", 1 << 31), "block size"),
        (22, struct.pack("<H", 30), "block size"),
        (40, struct.pack("<Q", 1 << 60), "only"),
        (64, struct.pack("<Q", 1 << 62), "out of order"),
        (72, struct.pack("<Q", 1 << 62), "out of order"),
    ],
)
def test_a_superblock_that_can_not_be_is_named(small: Path, position: int, value: bytes, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        opened(damaged(small, position, value))


@pytest.mark.parametrize("size", [0, 3, 95, 96, 200])
def test_what_is_cut_off_is_an_error(small: Path, tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.squashfs"
    path.write_bytes(small.read_bytes()[:size])
    with pytest.raises(ImageError):
        read_all(SquashFsFiles(opened(path)))


def test_a_block_that_unpacks_into_too_much_is_an_error(tmp_path: Path, small: Path) -> None:
    """A bomb: the block of the inodes holds eight megabytes of zeros."""
    engine = zlib.compressobj(9)
    bomb = engine.compress(bytes(8_000_000)) + engine.flush()
    data = bytearray(small.read_bytes())
    start = len(data)
    data += struct.pack("<H", len(bomb)) + bomb + bytes(4096)
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<Q", data, 64, start)
    struct.pack_into("<Q", data, 72, len(data) - 100)
    path = tmp_path / "bomb.squashfs"
    path.write_bytes(bytes(data))
    with pytest.raises(ImageError, match="can't be decompressed"):
        read_all(SquashFsFiles(opened(path)))


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_garbage_in_place_of_a_block_is_an_error(tree: Path, tmp_path: Path, need: Need, compressor: str) -> None:
    path = squashfs(need("mksquashfs"), tree, tmp_path / "x.squashfs", "-comp", compressor)
    (inodes,) = struct.unpack_from("<Q", path.read_bytes(), 64)
    broken = damaged(path, inodes + 2, b"\xa5" * 64)
    with pytest.raises(ImageError, match="damaged"):
        read_all(SquashFsFiles(opened(broken)))


@settings(max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6))
def test_changes_are_read_or_refused(small_bytes: bytes, tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    """Bytes anywhere, most of them in the superblock and the tables: an answer or an ImageError, soon."""
    data = bytearray(small_bytes)
    for position, value in changes:
        place = position % len(data)
        data[place : place + len(value)] = value
    path = tmp_path / "fuzzed.squashfs"
    path.write_bytes(bytes(data))
    begun = time.process_time()
    with contextlib.suppress(ImageError):
        read_all(SquashFsFiles(opened(path)))
    assert time.process_time() - begun < 5


@pytest.fixture(scope="module")
def small_bytes(tmp_path_factory: pytest.TempPathFactory, need: Need) -> bytes:
    """An image whose tables are not compressed, so that changes reach their fields."""
    top = tmp_path_factory.mktemp("small")
    write(top, "usr/bin/python3", "x" * 9000)
    write(top, "usr/lib/x", "x" * 500)
    (top / "link").symlink_to("usr/lib/x")
    (top / "loop").symlink_to("loop")
    path = tmp_path_factory.mktemp("image") / "small.squashfs"
    data = squashfs(need("mksquashfs"), top, path, "-b", "4K", "-noI", "-noF", "-no-xattrs", "-nopad").read_bytes()
    assert len(data) < 2000
    return data


def test_a_link_to_itself_or_with_an_endless_target_is_refused(small_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.squashfs"
    path.write_bytes(small_bytes)
    files = SquashFsFiles(opened(path))
    assert files.resolved("/loop") == ""
    assert files.text("/link") == "x" * 500
    data = bytearray(small_bytes)
    target = data.index(b"usr/lib/x")
    assert struct.unpack_from("<I", data, target - 4) == (9,)
    struct.pack_into("<I", data, target - 4, 1 << 31)
    path = tmp_path / "x.squashfs"
    path.write_bytes(bytes(data))
    with pytest.raises(ImageError, match="a link claims a target of 2147483648 bytes"):
        SquashFsFiles(opened(path)).resolved("/link")


def test_what_tells_a_whole_file_without_the_library_is_the_library_s_layout() -> None:
    assert sizeof(Superblock) == superblock.SIZE
    assert Superblock._bytes_used.offset == superblock.LENGTH_AT
    assert superblock.MAGIC == MAGIC_BYTES


# Limits


def test_forty_thousand_names_take_little_time_and_memory(tmp_path: Path) -> None:
    """The goals are 0.3 s and 30 MB; the time has a factor for machines that do something else too."""
    path = one_listing(tmp_path / "x.squashfs", directories=1, names=40_000)
    begun = time.process_time()
    assert len(SquashFsFiles(opened(path)).names("/d00000")) == 40_000
    assert time.process_time() - begun < 5
    tracemalloc.start()
    try:
        SquashFsFiles(opened(path)).names("/d00000")
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_directories_that_share_a_listing_are_not_read_for_ever(tmp_path: Path) -> None:
    files = SquashFsFiles(opened(one_listing(tmp_path / "x.squashfs", directories=5000, names=20_000)))
    begun = time.process_time()
    with pytest.raises(ImageError, match="needs reading more than 500,000 file names, far more than usual"):
        any(files.is_directory(f"/d{number:05}/bin") for number in range(5000))
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (struct.pack("<3I", 9, 0, 1), struct.pack("<3I", 0xFFFFFFF0, 0, 1), "claims 4294967281 entries"),
        (struct.pack("<2H", 6, 5) + b"m00003", struct.pack("<2H", 6, 60000) + b"m00003", "claims 60001 bytes"),
        (struct.pack("<2H", 6, 5) + b"m00003", struct.pack("<2H", 77, 5) + b"m00003", "can't be read .77 is not"),
        (struct.pack("<2H", 6, 5) + b"m00009", struct.pack("<2H", 6, 55) + b"m00009", "claims 56 bytes"),
    ],
)
def test_a_listing_that_can_not_be_is_named(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    path = one_listing(tmp_path / "x.squashfs", directories=1, names=10)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    with pytest.raises(ImageError, match=said):
        SquashFsFiles(opened(path)).names("/d00000")


def test_more_entries_below_a_header_than_the_kernel_takes_are_refused(tmp_path: Path) -> None:
    path = one_listing(tmp_path / "x.squashfs", directories=1, names=300, entries=257)
    with pytest.raises(ImageError, match="claims 257 entries"):
        SquashFsFiles(opened(path)).names("/d00000")
