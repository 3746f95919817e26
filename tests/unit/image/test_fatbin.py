"""GPU architectures of a library, from a file made as real ones are."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.image.fatbin import cuda_architectures
from sifmod.image.files import SandboxFiles

SASS, PTX = 2, 1


def container(*entries: tuple[int, int, bytes]) -> bytes:
    """Return a container with (kind, architecture, payload) entries; the heads are those of torchvision's library."""
    body = b""
    for kind, architecture, payload in entries:
        head = struct.pack("<HHIQIIHHI", kind, 0x101, 112, len(payload), 0, 64, 8, 1, architecture)
        body += head.ljust(112, b"\0") + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(content: bytes, name: bytes = b".nv_fatbin") -> bytes:
    names = b"\0.shstrtab\0" + name + b"\0"
    start = 64 + len(names) + len(content)
    sections = [(0, 0, 0), (1, 64, len(names)), (11, 64 + len(names), len(content))]
    table = b"".join(struct.pack("<IIQQQQIIQQ", one, 1, 0, 0, place, size, 0, 0, 1, 0) for one, place, size in sections)
    head = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<QIHHHHHH", start, 0, 64, 0, 0, 64, 3, 1)
    return head + names + content + table


def architectures(tmp_path: Path, data: bytes) -> tuple[str, ...]:
    (tmp_path / "lib.so").write_bytes(data)
    return cuda_architectures(SandboxFiles(tmp_path), "/lib.so")


def test_each_architecture_once_and_ptx_marked(tmp_path: Path) -> None:
    entries = [(SASS, 100, b"x" * 160), (SASS, 120, b"y" * 8), (PTX, 120, b"z" * 24), (SASS, 75, b"")]
    data = library(container(*entries) + container((SASS, 75, b"x" * 800), (SASS, 86, b"")))
    assert architectures(tmp_path, data) == ("7.5", "8.6", "10.0", "12.0+PTX", "12.0")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        library(b""),
        library(container((SASS, 75, b"")), name=b".text"),
        library(b"\0" * 500),
        library(struct.pack("<IHHQ", 0xBA55ED50, 1, 0, 0) * 500),
        library(container((SASS, 75, b"")))[:100],
    ],
)
def test_what_has_no_programs_has_no_architectures(tmp_path: Path, data: bytes) -> None:
    assert architectures(tmp_path, data) == ()


@settings(max_examples=150)
@given(changes=st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))
def test_whatever_is_changed_ends_soon(tmp_path: Path, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(library(container((SASS, 75, b"x" * 8), (PTX, 90, b"y" * 16))))
    for position, value in changes:
        data[position : position + len(value)] = value
    assert len(architectures(tmp_path, bytes(data))) <= 60
