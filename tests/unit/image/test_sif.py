"""The reader of SIFs: what the format's library writes, and what it never would."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sifmod.errors import ImageError
from sifmod.image.sif import read_sif

from ..imagetrees import DEFINITION, DESCRIPTOR, HEADER, partition, sif, signature

KEY = bytes(range(0xA0, 0xB4))


def read(path):
    with path.open("rb") as stream:
        return read_sif(stream, name=path.name)


@pytest.fixture
def signed(tmp_path: Path):
    definition = (DEFINITION, b"", b"Bootstrap: docker\n", 0)
    return sif(tmp_path / "x.sif", definition, partition(b"hsqs" * 30), signature(KEY), signature(bytes(20), link=2))


def test_objects_and_architecture(signed) -> None:
    found = read(signed)
    assert (found.architecture, found.created, len(found.descriptors)) == ("arm64", 1_700_000_000, 4)
    assert found.system == found.descriptors[1]
    assert signed.read_bytes()[found.system.offset :][: found.system.size] == b"hsqs" * 30


def test_signatures_name_the_key_and_what_it_signed(signed) -> None:
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
        (96, struct.pack("<q", 1 << 62), "descriptors are said to be at"),
        (96, struct.pack("<q", -5), "descriptors are said to be at"),
        (104, struct.pack("<q", 100), "descriptors are said to be at"),
        (HEADER.size + 17, struct.pack("<q", 1 << 40), "object 1 is said to end at"),
        (HEADER.size + 25, struct.pack("<q", 1 << 40), "object 1 is said to end at"),
        (HEADER.size + DESCRIPTOR.size + 17, struct.pack("<q", -1), "object 2 is said to end at"),
    ],
)
def test_what_can_not_be_is_named(signed, place, value, said: str) -> None:
    data = bytearray(signed.read_bytes())
    data[place : place + len(value)] = value
    signed.write_bytes(bytes(data))
    with pytest.raises(ImageError, match=said):
        read(signed)


@pytest.mark.parametrize("size", [0, 45, 127, 128, 5000, 28_300])
def test_a_file_that_is_cut_off_is_named(signed, size: int) -> None:
    signed.write_bytes(signed.read_bytes()[:size])
    with pytest.raises(ImageError, match="damaged"):
        read(signed)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, HEADER.size + 3 * DESCRIPTOR.size), st.binary(min_size=1, max_size=9))),
    size=st.integers(0, 40_000),
)
def test_whatever_is_changed_is_read_or_refused(signed, tmp_path: Path, changes, size) -> None:
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
