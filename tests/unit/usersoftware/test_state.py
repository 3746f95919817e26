import os
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod import names
from sifmod.usersoftware.state import (
    DAMAGED,
    DIRECTORY,
    GONE,
    NONE,
    PACKED,
    packed_problem,
    sums_in,
    tree_size,
    unowned,
    user_software,
)

from ..support import SQUASHFS

CUT_OFF = SQUASHFS[:-1]


def make(root: Path, *, directory: bool = False, packed: Optional[bytes] = None, mark: bool = False) -> None:
    if directory:
        info = root / names.USER_SOFTWARE_DIRECTORY / "venv/demo/lib/python3.11/site-packages/greeting-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    if packed is not None:
        (root / names.USER_SOFTWARE_PACKED).write_bytes(packed)
        (root / names.USER_SOFTWARE_LIST).write_text("packed==2.0\n\n# no package\n")
    if mark:
        (root / names.USER_SOFTWARE_UNPACKED).touch()


def test_what_no_package_owns_is_found(tmp_path: Path) -> None:
    packages = tmp_path / "venv/demo/lib/python3.11/site-packages"
    texts = {
        "own-1.dist-info/RECORD": 'own/__init__.py,sha256=x,1\n_own.py,,\n"od,d/x.py",,\n../../../bin/own,,\n',
        **{"own-1.dist-info/METADATA": "", "own/__init__.py": "", "_own.py": "", "pip/x": "", "__pycache__/x": ""},
        **{"old.egg-info/top_level.txt": "old\n", "old.py": "", "e.pth": "", "half/x": "x", "half-1.dist-info/x": ""},
    }
    for name, text in texts.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    assert [path.name for path in unowned(tmp_path)] == ["half", "half-1.dist-info"]
    (packages / "own-1.dist-info/RECORD").unlink()
    os.mkfifo(packages / "own-1.dist-info/RECORD")
    assert list(unowned(tmp_path)) == []


@pytest.mark.parametrize(
    ("there", "state", "packages"),
    [
        ({"directory": True}, DIRECTORY, ("greeting==1.0",)),
        ({"packed": SQUASHFS}, PACKED, ("packed==2.0",)),
        ({"packed": SQUASHFS, "directory": True}, PACKED, ("packed==2.0",)),
        ({"packed": SQUASHFS, "directory": True, "mark": True}, DIRECTORY, ("greeting==1.0",)),
        ({"packed": SQUASHFS, "mark": True}, PACKED, ("packed==2.0",)),
        ({"packed": CUT_OFF}, DAMAGED, ()),
        ({"packed": b""}, DAMAGED, ()),
        ({"packed": CUT_OFF, "directory": True}, DIRECTORY, ("greeting==1.0",)),
        ({}, GONE, ()),
    ],
)
def test_scripts_take_the_same(tmp_path: Path, there: dict[str, Any], state: str, packages: tuple[str, ...]) -> None:
    make(tmp_path, **there)
    found = user_software(tmp_path, venv="demo")
    assert (found.state, found.packages) == (state, packages)
    assert (found.has_directory, found.has_packed) == ("directory" in there, "packed" in there)
    assert bool(found.packed_problem) == (there.get("packed") in (CUT_OFF, b""))


def test_sizes_are_those_of_what_is_in_use(tmp_path: Path) -> None:
    assert user_software(tmp_path, venv="").state == NONE
    make(tmp_path, packed=SQUASHFS)
    assert user_software(tmp_path, venv="demo").size == len(SQUASHFS)
    make(tmp_path, directory=True, mark=True)
    directory = tmp_path / names.USER_SOFTWARE_DIRECTORY
    (directory / "link").symlink_to("/usr")
    found = user_software(tmp_path, venv="demo")
    assert found.size == tree_size(directory) == len("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n") + 4
    assert tree_size(tmp_path / "gone") == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"PK" + bytes(200), "not a SquashFS"), (b"hsqs", "not a SquashFS"), (CUT_OFF, "95 of 96 bytes")],
)
def test_a_packed_file_that_is_none_is_described(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "packed"
    path.write_bytes(content)
    assert says in packed_problem(path)
    path.unlink()
    os.mkfifo(path)
    assert packed_problem(path) == "it can't be read: not a plain file"


@given(st.binary(max_size=200))
def test_any_bytes_are_told_from_a_packed_file(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "packed"
    path.write_bytes(content)
    assert isinstance(packed_problem(path), str)


@pytest.mark.timeout(240)  # reading a FIFO would wait for a writer
def test_fifos_in_the_place_of_lists_count_as_none(tmp_path: Path) -> None:
    make(tmp_path, packed=SQUASHFS)
    (tmp_path / names.USER_SOFTWARE_LIST).unlink()
    os.mkfifo(tmp_path / names.USER_SOFTWARE_LIST)
    os.mkfifo(tmp_path / names.USER_SOFTWARE_SHA256)
    assert user_software(tmp_path, venv="demo").packages == ()
    assert sums_in(tmp_path / names.USER_SOFTWARE_SHA256) == frozenset()
