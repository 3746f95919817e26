"""Finding Pythons and packages by their files."""

from pathlib import Path
from typing import Any

import pytest

from sifmod.image import python as module
from sifmod.image.files import SandboxFiles
from sifmod.image.python import ImagePython, find_pythons, user_software_pythons

from ..imagetrees import distribution, link, python_prefix, write

SITE = "lib/python3.11/site-packages"


def found(top: Path, **more: Any) -> dict[str, ImagePython]:
    return {python.prefix: python for python in find_pythons(SandboxFiles(top), **more)}


def test_debians_python_has_the_packages_of_all_its_directories(top: Path) -> None:
    distribution(top, "/usr/lib/python3/dist-packages", "local-package", "1.0")
    python = found(top, system_packages={"python3.11": "3.11.2-6"})["/usr"]
    assert (python.kind, python.version, python.minor_version) == ("system", "3.11.2", "3.11")
    # the one in /usr/local is the one that is imported
    assert python.packages == (("demo-vendor", "1.2.3+site"), ("Local.Package", "2.0"))
    assert python.version_of("local_package") == "2.0"


def test_conda_environments_and_their_root(top: Path) -> None:
    python_prefix(top, "/opt/conda", conda=["python-3.10.13-h955ad1f_0", "python-dateutil-2.8.2-pyhd3eb1b0_0"])
    write(top, "/opt/conda/bin/activate")
    python_prefix(top, "/opt/conda/envs/ml", conda=["numpy-1.26.4-py311_0"], packages=[("numpy", "1.26.4")])
    root, env = (found(top)[prefix] for prefix in ("/opt/conda", "/opt/conda/envs/ml"))
    assert (root.kind, root.conda_root, root.conda_env) == ("conda", "/opt/conda", "base")
    assert (env.kind, env.conda_root, env.conda_env) == ("conda", "/opt/conda", "ml")
    assert env.conda_version_of("numpy") == "1.26.4"
    assert env.packages == (("numpy", "1.26.4"),)
    assert ("python-dateutil", "2.8.2") in root.conda_packages


@pytest.mark.parametrize(
    ("config", "version", "packages"),
    [
        ("home = /usr/bin\nversion = 3.11.2\n", "3.11.2", ["mine"]),
        ("home = /usr/bin\nversion_info = 3.11.9.final.0\n", "3.11.9", ["mine"]),
        ("home=/usr/bin\ninclude-system-site-packages = true\n", "3.11", ["demo-vendor", "Local.Package", "mine"]),
    ],
)
def test_virtual_environments(top: Path, config: str, version: str, packages: list[str]) -> None:
    python_prefix(top, "/opt/venv", config=config, packages=[("mine", "1.0")])
    python = found(top)["/opt/venv"]
    assert (python.kind, python.version) == ("venv", version)
    assert [name for name, _ in python.packages] == packages


def test_a_python_in_the_search_path_is_found_and_says_its_version(top: Path) -> None:
    python_prefix(top, "/a/b/c/d", packages=[("x", "1")])
    write(top, "/a/b/c/d/include/python3.11/patchlevel.h", '#define PY_VERSION      \t"3.11.7+"\n')
    assert "/a/b/c/d" not in found(top)
    python = found(top, search_path=["/bin", "/a/b/c/d/bin/"])["/a/b/c/d"]
    assert (python.kind, python.version) == ("other", "3.11.7")
    write(top, "/usr/lib/python3.9/os.py")
    write(top, "/usr/lib/python3.12/os.py")
    assert found(top)["/usr"].version == "3.11"


def test_what_only_looks_like_a_python_or_is_a_link_counts_once(top: Path) -> None:
    write(top, "/opt/miniconda3/conda-meta/history")
    write(top, "/opt/miniconda3/bin/conda")
    write(top, "/opt/tool/bin/python3")
    write(top, "/opt/data/lib/python3.11/x")
    assert sorted(found(top)) == ["/usr"]
    python_prefix(top, "/srv/python")
    link(top, "/opt/python", "/srv/python")
    assert sorted(found(top)) == ["/srv/python", "/usr"]


def test_every_way_that_packages_are_installed(top: Path) -> None:
    python_prefix(top, "/opt/venv", config="home = /usr/bin\n")
    folder = f"/opt/venv/{SITE}"
    write(top, f"{folder}/old-1.0-py3.11.egg-info", "Name: old\nVersion: 1.0\n")
    write(top, f"{folder}/older.egg-info/PKG-INFO", "Metadata-Version: 1.0\r\nName: older\r\nVersion: 2.0\r\n")
    write(top, f"{folder}/egg-3.0-py3.11.egg/EGG-INFO/PKG-INFO", "Name: egg\nVersion: 3.0\n")
    write(top, f"{folder}/linked.egg-link", "/src/linked\n.\n")
    write(top, "/src/linked/linked.egg-info/PKG-INFO", "Name: linked\nVersion: 4.0\n")
    write(top, f"{folder}/more.pth", "# comment\nimport os\n/srv/more\n")
    distribution(top, "/srv/more", "by-pth", "5.0")
    write(top, f"{folder}/left-1.0.dist-info/RECORD")
    write(top, f"{folder}/torn-1.0.dist-info/METADATA", "Name: torn\n\nVersion: 1.0\n")
    assert dict(found(top)["/opt/venv"].packages) == {
        "old": "1.0",
        "older": "2.0",
        "egg": "3.0",
        "linked": "4.0",
        "by-pth": "5.0",
    }


def test_user_software(tmp_path: Path) -> None:
    write(
        tmp_path,
        "/venv/mine/pyvenv.cfg",
        "home = /opt/conda/bin\nversion = 3.10.4\ninclude-system-site-packages = true\n",
    )
    distribution(tmp_path, "/venv/mine/lib/python3.10/site-packages", "greeting", "1.0")
    (python,) = user_software_pythons(SandboxFiles(tmp_path))
    assert (python.prefix, python.version, python.packages) == ("/venv/mine", "3.10.4", (("greeting", "1.0"),))


def test_only_some_lines_of_pth_files_are_followed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SITE_DIRECTORIES", 20)
    for number in range(30):
        distribution(top, f"/more/{number:02}", f"m{number}", "1.0")
    for first in (0, 10, 20):
        lines = "".join(f"/more/{number:02}\n" for number in range(first, first + 10))
        write(top, f"/usr/lib/python3/dist-packages/{first:02}.pth", lines)
    python = found(top)["/usr"]
    assert 10 < len(python.site_directories) <= 20
    assert (python.version_of("m9"), python.version_of("m29")) == ("1.0", "")
