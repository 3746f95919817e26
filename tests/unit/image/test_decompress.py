"""Blocks are unpacked into the place that they have, or not at all."""

import lzma
import zlib

import pytest
from tests.lacking import lacking

from sifmod.errors import ImageError
from sifmod.image import decompress as module
from sifmod.image.decompress import DamagedBlockError, decompress

TEXT = b"block of text " * 100
PACKED = {"gzip": zlib.compress(TEXT), "xz": lzma.compress(TEXT)}


@pytest.mark.parametrize("compressor", PACKED)
@pytest.mark.parametrize("place", [len(TEXT), len(TEXT) + 1, 8192])
def test_a_block_is_unpacked(compressor: str, place: int) -> None:
    assert decompress(compressor, PACKED[compressor], place) == TEXT


@pytest.mark.parametrize("compressor", PACKED)
@pytest.mark.parametrize("place", [1, 100, len(TEXT) - 1])
def test_more_than_there_is_place_for_is_refused(compressor: str, place: int) -> None:
    with pytest.raises(DamagedBlockError, match="more than"):
        decompress(compressor, PACKED[compressor], place)


@pytest.mark.parametrize("compressor", module.COMPRESSORS.values())
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 100, bytes(100)])
def test_what_is_no_block_is_refused_or_harmless(compressor: str, data: bytes) -> None:
    try:
        assert len(decompress(compressor, data, 8192)) <= 8192
    except DamagedBlockError:
        pass
    except ImageError as error:
        lacking(str(error))


@pytest.mark.parametrize("compressor", PACKED)
def test_a_block_that_is_cut_off_is_refused(compressor: str) -> None:
    with pytest.raises(DamagedBlockError):
        decompress(compressor, PACKED[compressor][:-9], 8192)


@pytest.mark.parametrize("compressor", ["lzo", "lz4", "zstd"])
def test_a_missing_library_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, compressor: str) -> None:
    monkeypatch.setitem(module._LIBRARIES, compressor, ("libnothere.so.9", "nothere"))
    module._library.cache_clear()
    with pytest.raises(
        ImageError, match=f"SquashFS compressed with {compressor} needs the library libnothere.so.9: install it"
    ):
        decompress(compressor, b"x", 10)
    module._library.cache_clear()
