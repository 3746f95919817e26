import os
from pathlib import Path

import pytest

from sifmod.errors import ImageError
from sifmod.image.sif import check_is_sif

from ..support import SIF_HEADER


def test_a_file_with_the_header_of_a_sif_is_one(image) -> None:
    check_is_sif(image)


def test_a_header_alone_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "x.sif"
    path.write_bytes(SIF_HEADER)
    check_is_sif(path)


def test_a_link_to_a_sif_is_followed(tmp_path: Path, image) -> None:
    link = tmp_path / "link.sif"
    link.symlink_to(image)
    check_is_sif(link)


def test_the_launch_script_of_the_header_may_be_any(tmp_path: Path) -> None:
    path = tmp_path / "x.sif"
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
def test_what_is_no_sif_is_named_with_what_it_is_and_the_remedy(tmp_path: Path, content, found: str) -> None:
    path = tmp_path / "wrong.sif"
    path.write_bytes(content)
    with pytest.raises(ImageError) as caught:
        check_is_sif(path)
    message = str(caught.value)
    assert f"'{path}' is not a SIF" in message
    assert found in message
    assert "fetch or build the image again" in message


@pytest.mark.parametrize("make", [Path.exists, Path.mkdir, lambda path: path.symlink_to("gone")])
def test_what_is_no_file_is_refused_with_the_remedy(tmp_path: Path, make) -> None:
    path = tmp_path / "x.sif"
    make(path)
    with pytest.raises(ImageError) as caught:
        check_is_sif(path)
    assert f"'{path}' is not a file" in str(caught.value)
    assert "give the path of a SIF" in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_can_not_be_read_is_named_with_the_reason(image) -> None:
    image.chmod(0)
    with pytest.raises(ImageError) as caught:
        check_is_sif(image)
    assert str(image) in str(caught.value)
    assert "Permission denied" in str(caught.value)
