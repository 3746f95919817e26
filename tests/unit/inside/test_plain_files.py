import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from tests.programs import ran, write_file

from sifmod.resources import program

SITE = "venv/demo/lib/python3.11/site-packages"
FILES = (
    "venv/demo/pyvenv.cfg",
    f"{SITE}/a.pth",
    f"{SITE}/a-1.dist-info/METADATA",
    f"{SITE}/a-1.dist-info/RECORD",
    f"{SITE}/a-1.dist-info/direct_url.json",
    f"{SITE}/a-1.dist-info/entry_points.txt",
    f"{SITE}/a-1.egg-info/PKG-INFO",
    f"{SITE}/b-1.egg-info",
    f"{SITE}/c.egg/EGG-INFO/PKG-INFO",
    f"{SITE}/sitecustomize.py",
)


def look(top: Path) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, "-I", "-", top], input=program("plain_files"), timeout=120)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return user software with every file that is read, and a folder of licences."""
    for name in FILES:
        write_file(tmp_path / "user [software]" / name, "text")
    (tmp_path / "user [software]" / SITE / "a-1.dist-info/licenses").mkdir()
    (tmp_path / "user [software]" / SITE / "gone.pth").symlink_to("nowhere")
    return tmp_path / "user [software]"


def test_of_usual_files_none_is_named(top: Path) -> None:
    done = look(top)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert look(top / "nowhere").returncode == 0


def huge(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("put", "what"),
    [
        (os.mkfifo, "is not a plain file"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a plain file"),
        (huge, f"has {1 << 40} bytes"),
    ],
    ids=["fifo", "device", "huge"],
)
def test_what_would_stop_python_is_named(top: Path, name: str, put: Callable[[Path], None], what: str) -> None:
    (top / name).unlink()
    put(top / name)
    done = look(top)
    assert done.returncode == 1
    assert done.stderr == f"{str(top / name)!r} {what}: Python would not get past it, so remove it\n"
