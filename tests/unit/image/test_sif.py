"""The reader of SIFs: what the format's library writes, and what it never would."""

import os
import struct
from pathlib import Path
from typing import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.errors import ImageError
from sifmod.image.sif import SifFile, check_is_sif, read_sif, sif_id

from ..imagetrees import DEFINITION, DESCRIPTOR, HEADER, partition, sif, signature
from ..support import SIF_HEADER

KEY = bytes(range(0xA0, 0xB4))


def read(path: Path) -> SifFile:
    with path.open("rb") as stream:
        return read_sif(stream, name=path.name)


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    definition = (DEFINITION, b"", b"Bootstrap: docker\n", 0)
    return sif(tmp_path / "x.sif", definition, partition(b"hsqs" * 30), signature(KEY), signature(bytes(20), link=2))


def test_objects_and_signatures(signed: Path) -> None:
    found = read(signed)
    assert (found.architecture, found.created, len(found.descriptors)) == ("arm64", 1_700_000_000, 4)
    assert found.system == found.descriptors[1]
    assert signed.read_bytes()[found.system.offset :][: found.system.size] == b"hsqs" * 30
    first, second = read(signed).signatures
    assert (first.fingerprint, first.hash, first.signs) == (KEY.hex().upper(), "sha256", "group 1")
    assert (second.fingerprint, second.signs) == ("", "object 2")


def test_only_the_primary_partition_is_the_system(tmp_path: Path) -> None:
    path = sif(tmp_path / "x.sif", partition(b"data", part=3), partition(b"more", part=4))
    assert read(path).system is None
    assert read(sif(tmp_path / "y.sif", architecture=b"99\0")).architecture == "unknown"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (42, b"02\0", "version b'02'"),
        (80, struct.pack("<q", -1), "claims"),
        (80, struct.pack("<q", 99), "claims"),
        (88, struct.pack("<q", 1 << 40), "claims"),
        (96, struct.pack("<q", 1 << 62), "bytes of descriptors at byte"),
        (96, struct.pack("<q", -5), "bytes of descriptors at byte"),
        (104, struct.pack("<q", 100), "bytes of descriptors at byte"),
        (HEADER.size + 17, struct.pack("<q", 1 << 40), "object 1 should end at"),
        (HEADER.size + 25, struct.pack("<q", 1 << 40), "object 1 should end at"),
        (HEADER.size + DESCRIPTOR.size + 17, struct.pack("<q", -1), "object 2 should end at"),
    ],
)
def test_what_can_not_be_is_named(signed: Path, place: int, value: bytes, said: str) -> None:
    data = bytearray(signed.read_bytes())
    data[place : place + len(value)] = value
    signed.write_bytes(bytes(data))
    with pytest.raises(ImageError, match=said):
        read(signed)


@pytest.mark.parametrize("size", [0, 45, 127, 128, 5000, 28_300])
def test_a_file_that_is_cut_off_is_named(signed: Path, size: int) -> None:
    signed.write_bytes(signed.read_bytes()[:size])
    with pytest.raises(ImageError, match="damaged"):
        read(signed)


@settings(max_examples=300)
@given(
    changes=st.lists(st.tuples(st.integers(0, HEADER.size + 3 * DESCRIPTOR.size), st.binary(min_size=1, max_size=9))),
    size=st.integers(0, 40_000),
)
def test_changes_are_read_or_refused(signed: Path, tmp_path: Path, changes: list[tuple[int, bytes]], size: int) -> None:
    data = bytearray(signed.read_bytes())
    for position, value in changes:
        data[position : position + len(value)] = value
    path = tmp_path / "fuzzed.sif"
    path.write_bytes(bytes(data[:size]))
    try:
        found = read(path)
    except ImageError:
        return
    assert all(one.offset + one.size <= len(data) for one in found.descriptors)
    assert len(found.signatures) <= len(found.descriptors)


# Whether a file is a SIF at all


def test_a_header_alone_or_a_link_to_a_sif_is_enough(tmp_path: Path, image: Path) -> None:
    path = tmp_path / "x.sif"
    path.write_bytes(SIF_HEADER)
    check_is_sif(path)
    link = tmp_path / "link.sif"
    link.symlink_to(image)
    check_is_sif(link)
    path.write_bytes(b"#!/usr/bin/env run-apptainer\n".ljust(32, b"\0") + SIF_HEADER[32:] + b"rest")
    check_is_sif(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"hsqs" + bytes(100), "a bare SquashFS file"),
        (b"\x1f\x8b" + bytes(100), "a compressed archive"),
        (b"\xfd7zXZ" + bytes(100), "a compressed archive"),
        (b"BZh9" + bytes(100), "a compressed archive"),
        (b"<!DOCTYPE html><title>Log in</title>" + bytes(100), "a web page"),
        (b"<html>not found</html>" + bytes(100), "a web page"),
        (b"\x7fELF" + bytes(100), "begins with b'\\x7fELF"),
        (SIF_HEADER[:40], "begins with b'#!/usr/b"),
        (SIF_HEADER.replace(b"SIF_MAGIC", b"SIF_MAGIX") + bytes(100), "begins with b'#!/usr/b"),
        (SIF_HEADER[:-1], "begins with b'#!/usr/b"),
    ],
)
def test_what_is_no_sif_is_named_with_what_it_is_and_the_remedy(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "wrong.sif"
    path.write_bytes(content)
    with pytest.raises(ImageError) as caught:
        check_is_sif(path)
    message = str(caught.value)
    assert f"'{path}' is not a SIF" in message
    assert found in message
    assert "fetch or build the image again" in message


@pytest.mark.parametrize("make", [Path.exists, Path.mkdir, lambda path: path.symlink_to("gone")])
def test_what_is_no_file_is_refused_with_the_remedy(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "x.sif"
    make(path)
    with pytest.raises(ImageError) as caught:
        check_is_sif(path)
    assert f"'{path}' is not a file" in str(caught.value)
    assert "use the path of a SIF" in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_can_not_be_read_is_named_with_the_reason(image: Path) -> None:
    image.chmod(0)
    with pytest.raises(ImageError) as caught:
        check_is_sif(image)
    assert str(image) in str(caught.value)
    assert "Permission denied" in str(caught.value)


@pytest.mark.timeout(240)  # reading a FIFO would wait for a writer
def test_a_fifo_has_no_identifier(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.sif")
    with pytest.raises(OSError, match="seek"):
        sif_id(tmp_path / "x.sif")
