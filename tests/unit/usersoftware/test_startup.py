import subprocess
from pathlib import Path

import pytest

from sifmod.usersoftware.startup import starting_code

from ..support import Need

SETUPTOOLS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local'; "
    "enabled and __import__('_distutils_hack').add_shim(); \n"
)
OWN = "import site; site.addsitedir('/opt/venv/lib/python3.11/site-packages')\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "user-software/venv/demo/lib/python3.11/site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "image/opt/venv/lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "image/tmp").mkdir()
    (tmp_path / "image/opt/link").symlink_to("/tmp")
    (tmp_path / "user-software/venv/demo/lib64").symlink_to("lib")
    (folder / "distutils-precedence.pth").write_text(SETUPTOOLS)
    (folder / "_image.pth").write_text(OWN + OWN.replace("lib/python3.11/site", "local/lib/python3.11/dist"))
    (folder / "easy-install.pth").write_text("/some/folder\nimportant/folder\n# import nothing\n")
    return folder


def found(tmp_path: Path) -> list[str]:
    tree, image = tmp_path / "user-software", tmp_path / "image"
    return [Path(path).name for path in starting_code(tree, venv="demo", image=image)]


def test_a_new_environment_has_nothing_to_list(packages: Path, tmp_path: Path) -> None:
    assert packages.exists()
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hook.pth", "import hook\n"),
        ("tab.pth", "/folder\nimport\thook"),
        ("mark.pth", "\ufeffimport hook"),
        ("feed.pth", "#\fimport hook"),
        ("long.pth", "#" * 70_000 + "\nimport hook\n"),
        ("_image.pth", f"{OWN}import hook\n"),
        ("hidden.pth", OWN),
        ("_image.pth", "import site; site.addsitedir('/user-software/.hidden')\n"),
        ("_image.pth", "import site; site.addsitedir('/user-software/site-packages')\n"),
        ("_image.pth", "import site; site.addsitedir('/tmp')\n"),
        ("_image.pth", "import site; site.addsitedir('/opt/link/site-packages')\n"),
        ("_image.pth", "import site; site.addsitedir('/opt/venv/../../user-software/site-packages')\n"),
        ("_image.pth", "import site; site.addsitedir(''); __import__('hook'); ('')\n"),
        ("distutils-precedence.pth", f"{SETUPTOOLS}import hook\n"),
        ("sitecustomize.py", ""),
        ("usercustomize.cpython-311-x86_64-linux-gnu.so", ""),
    ],
)
def test_what_python_runs_by_itself_is_listed(packages: Path, tmp_path: Path, name: str, text: str) -> None:
    (packages / name).write_text(text)
    assert found(tmp_path) == [name]


def test_of_a_packed_file_too(packages: Path, tmp_path: Path, need: Need) -> None:
    (packages / "sitecustomize").mkdir()
    packed = tmp_path / "packed"
    folders = [str(tmp_path / "user-software"), str(packed)]
    subprocess.run([need("mksquashfs"), *folders, "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    assert starting_code(packed, venv="demo", image=tmp_path / "image") == (
        "venv/demo/lib/python3.11/site-packages/sitecustomize",
    )
