import os

import pytest

from sifmod.errors import SifmodError
from sifmod.textfile import write_text


def test_a_file_is_written_with_the_umask_s_mode(tmp_path):
    umask = os.umask(0o027)
    try:
        write_text(tmp_path / "x", "text\n")
    finally:
        os.umask(umask)
    assert (tmp_path / "x").read_text() == "text\n"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("make", [lambda path: path.write_text("old"), lambda path: path.symlink_to("gone")])
def test_what_is_there_stays_unless_told_otherwise(tmp_path, make):
    path = tmp_path / "x"
    make(path)
    with pytest.raises(SifmodError, match=r"exists: .*--force"):
        write_text(path, "new")
    write_text(path, "new", overwrite=True)
    assert path.read_text() == "new"


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(SifmodError, match="can't be written"):
        write_text(tmp_path / "gone" / "x", "text")
    (tmp_path / "x").mkdir()
    with pytest.raises(SifmodError, match="can't be written"):
        write_text(tmp_path / "x", "text", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
