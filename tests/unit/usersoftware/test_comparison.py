import os
import shutil
from pathlib import Path

import pytest

from sifmod.errors import ImageError
from sifmod.inside.trees import FOLDER_MODES
from sifmod.usersoftware.comparison import compare_with_packed

from ..imagetrees import squashfs, write
from ..support import SQUASHFS, Need


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    top = tmp_path / "user-software"
    write(top, "venv/demo/a.py", "a")
    write(top, "venv/demo/b/c.py", "c")
    (top / "link").symlink_to("venv")
    (top / os.fsdecode(b"not \xff utf8\n")).mkdir()
    return top


@pytest.fixture
def packed(directory: Path, tmp_path: Path, need: Need) -> Path:
    return squashfs(need("mksquashfs"), directory, tmp_path / "packed")


def test_a_directory_is_what_was_packed_of_it(directory: Path, packed: Path) -> None:
    (directory / FOLDER_MODES).touch()
    assert compare_with_packed(directory, packed).text == ""


def test_each_side_s_own_is_named(directory: Path, packed: Path) -> None:
    write(directory, "venv/new/file")
    write(directory, "venv/demo/a.py", "longer")
    shutil.rmtree(directory / "venv" / "demo" / "b")
    (directory / "link").unlink()
    (directory / "link").symlink_to("elsewhere")
    found = compare_with_packed(directory, packed)
    assert found.only_in_directory == ("venv/new",)
    assert found.only_in_packed == ("venv/demo/b",)
    assert found.different == ("link", "venv/demo/a.py")
    assert found.text == (
        "only in the directory: 'venv/new'; only in the packed file: 'venv/demo/b'; different: 'link', 'venv/demo/a.py'"
    )
    for number in range(7):
        write(directory, f"many{number}")
    assert "'many4' and 3 more" in compare_with_packed(directory, packed).text


def test_a_damaged_packed_file_is_an_error(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(SQUASHFS)
    with pytest.raises(ImageError):
        compare_with_packed(directory, tmp_path / "damaged")
