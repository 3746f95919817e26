"""Images that lie unpacked: what identifies them, and what is not followed or waited for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sifmod.image.unpacked import LABELS, unpacked_id, unpacked_labels

from ..imagetrees import link, linux, write

TEXT = '{\n"org.label-schema.build-date": "Monday"\n}\n'


@pytest.fixture
def top(tmp_path: Path) -> Path:
    found = linux(tmp_path / "image")
    shutil.rmtree(found / ".singularity.d")
    return found


def test_labels_and_path_identify_it(top: Path, tmp_path: Path) -> None:
    without = unpacked_id(top)
    write(top, LABELS, TEXT)
    assert unpacked_labels(top) == TEXT
    assert unpacked_id(top) != without
    (tmp_path / "tag").symlink_to(top)
    assert unpacked_id(tmp_path / "tag") == unpacked_id(top)
    top.rename(tmp_path / "other")
    assert unpacked_labels(tmp_path / "other") == TEXT
    assert unpacked_id(tmp_path / "other") != without


def test_of_long_labels_the_beginning_counts(top: Path) -> None:
    write(top, LABELS, "x" * 100_000)
    assert unpacked_labels(top) == "x" * 4096


@pytest.mark.parametrize("kind", ["fifo", "link", "folder link", "no ASCII", "none"])
def test_labels_that_a_module_could_not_compare_are_left_out(top: Path, tmp_path: Path, kind: str) -> None:
    write(tmp_path / "elsewhere", "labels.json", TEXT)
    if kind == "folder link":
        link(top, ".singularity.d", tmp_path / "elsewhere")
    elif kind == "link":
        link(top, LABELS, tmp_path / "elsewhere/labels.json")
    elif kind == "no ASCII":
        write(top, LABELS, "{'a': 'ü'}")
    elif kind == "fifo":
        (top / ".singularity.d").mkdir()
        os.mkfifo(top / LABELS)
    assert unpacked_labels(top) == ""
    assert len(unpacked_id(top)) == 32
