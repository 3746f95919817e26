import contextlib
import hashlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lacking import lacking

from sifmod.errors import ImageError
from sifmod.install import placement
from sifmod.install.placement import HARD_LINK, REFLINK, copy_image, link_image

from ..support import mode_of

CHUNK = placement._CHUNK


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target.sif"


@contextlib.contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Make writing beyond `size` fail, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_the_copy_says_how_far_it_is(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source.sif"
    source.write_bytes(bytes(2 * CHUNK + 17))
    copied: list[int] = []
    copy_image(source, target, progress=copied.append)
    assert copied == [CHUNK, CHUNK, 17]


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 9 * CHUNK + 17])
def test_a_part_is_copied_and_hashed_alone(tmp_path: Path, target: Path, size: int) -> None:
    source = tmp_path / "source.sif"
    part = os.urandom(size)
    source.write_bytes(b"before" + part + b"after")
    copied: list[int] = []
    assert copy_image(source, target, offset=6, size=size, progress=copied.append) == hashlib.sha256(part).hexdigest()
    assert target.read_bytes() == part
    assert sum(copied) == size


def test_a_part_that_is_not_all_there_leaves_nothing(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source.sif"
    source.write_bytes(bytes(100))
    with pytest.raises(ImageError, match="ends 10 bytes too early: was it changed during the copy"):
        copy_image(source, target, offset=50, size=60)
    assert not target.exists()


def test_hashing_may_fall_behind_by_some_chunks(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(placement._CHUNKS * CHUNK)
    source = tmp_path / "source.sif"
    source.write_bytes(content)
    all_written = threading.Event()
    digest, seen = hashlib.sha256(), []

    class Waiting:
        hexdigest = digest.hexdigest

        def update(self, data: memoryview) -> None:
            seen.append(all_written.wait(60))
            digest.update(data)

    monkeypatch.setattr(hashlib, "sha256", Waiting)
    copied: list[int] = []

    def progress(size: int) -> None:
        copied.append(size)
        if len(copied) == placement._CHUNKS:
            all_written.set()

    assert copy_image(source, target, progress=progress) == digest.hexdigest()
    assert seen == [True] * placement._CHUNKS
    monkeypatch.undo()
    assert digest.hexdigest() == hashlib.sha256(content).hexdigest()


def test_an_error_of_hashing_ends_the_copy(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source.sif"
    source.write_bytes(bytes(CHUNK))

    class Failing:
        def update(self, _data: memoryview) -> None:
            raise MemoryError("no memory")

    monkeypatch.setattr(hashlib, "sha256", Failing)
    with pytest.raises(MemoryError, match="no memory"):
        copy_image(source, target)
    assert not target.exists()


def test_an_image_that_arrives_in_small_pieces_is_copied_whole(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "pipe"
    os.mkfifo(source)
    pieces = [os.urandom(size) for size in (1, 100_000, 3, 65_536, 70_001, 2)]

    def write() -> None:
        with source.open("wb", buffering=0) as stream:
            for piece in pieces:
                stream.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    digest = copy_image(source, target)
    writer.join()
    assert target.read_bytes() == b"".join(pieces)
    assert digest == hashlib.sha256(b"".join(pieces)).hexdigest()


def test_the_page_cache_is_freed_up_to_the_end(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source.sif"
    size = 4 * placement._CACHED + CHUNK
    with source.open("wb") as stream:
        stream.truncate(size)
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _file, offset, length, _advice: asked.append((offset, length)))
    copy_image(source, target)
    for chunk in range(0, size, CHUNK):
        times = sum(offset <= chunk and chunk + CHUNK <= offset + length for offset, length in asked)
        assert times == (2 if chunk < 3 * placement._CACHED else 1 if chunk < 4 * placement._CACHED else 0)


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_the_umask_decides_who_may_use_the_copy(image: Path, target: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        copy_image(image, target)
    finally:
        os.umask(before)
    assert mode_of(target) == 0o777 & ~umask


def test_a_full_disk_leaves_no_part_of_the_copy(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source.sif"
    source.write_bytes(os.urandom(2 * CHUNK))
    with no_file_larger_than(CHUNK + 1000), pytest.raises(ImageError) as caught:
        copy_image(source, target)
    assert not target.exists()
    assert f"'{source}'" in str(caught.value)
    assert f"'{target}'" in str(caught.value)
    assert "File too large" in str(caught.value)


def test_a_target_that_exists_is_not_touched(image: Path, target: Path) -> None:
    target.write_text("somebody else's")
    with pytest.raises(ImageError) as caught:
        copy_image(image, target)
    assert target.read_text() == "somebody else's"
    assert f"'{target}'" in str(caught.value)
    assert "exists" in str(caught.value)


def test_an_image_or_a_folder_that_is_missing_is_named(tmp_path: Path, target: Path, image: Path) -> None:
    with pytest.raises(ImageError) as caught:
        copy_image(tmp_path / "gone.sif", target)
    assert str(tmp_path / "gone.sif") in str(caught.value)
    assert "No such file" in str(caught.value)
    assert not target.exists()
    with pytest.raises(ImageError, match="Is a directory"):
        copy_image(tmp_path, target)
    assert not target.exists()
    with pytest.raises(ImageError, match="No such file"):
        copy_image(image, tmp_path / "gone" / "target.sif")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_image_that_can_not_be_read_is_named(image: Path, target: Path) -> None:
    image.chmod(0)
    with pytest.raises(ImageError, match="Permission denied"):
        copy_image(image, target)
    assert not target.exists()


# Linking


def test_a_linked_image_has_the_same_bytes_and_no_second_copy(image: Path, target: Path) -> None:
    assert link_image(image, target) == (HARD_LINK if target.samefile(image) else REFLINK)
    assert target.read_bytes() == image.read_bytes()
    # a hard link, or a reflink that is a file of its own
    assert target.stat().st_ino == image.stat().st_ino or target.stat().st_nlink == 1


def test_a_link_is_made_to_the_image_and_not_to_a_symbolic_link(tmp_path: Path, image: Path, target: Path) -> None:
    link = tmp_path / "link.sif"
    link.symlink_to(image)
    assert link_image(link, target)
    assert not target.is_symlink()
    assert target.read_bytes() == image.read_bytes()


def test_what_can_not_be_linked_leaves_nothing(tmp_path: Path, target: Path, image: Path) -> None:
    assert not link_image(tmp_path / "gone.sif", target)
    assert not target.exists()
    elsewhere = Path("/dev/shm")
    if not os.access(elsewhere, os.W_OK) or elsewhere.stat().st_dev == image.stat().st_dev:
        lacking("there is no second file system to write to")
    target = elsewhere / f"sifmod-test-{os.getpid()}"
    assert not link_image(image, target)
    assert not target.exists()
