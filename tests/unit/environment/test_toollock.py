"""A lock of uv as uv 0.13 writes it."""

from pathlib import Path

import pytest

from sifmod.environment.lock import read_lock
from sifmod.environment.packagefile import Kind, kind_of, read_packages
from sifmod.environment.python import Source
from sifmod.errors import SifmodError

from .test_lock import LINUX, SHA

WHEELS = f"""wheels = [
    {{ url = "https://x.org/NAME-VERSION-py3-none-any.whl", hash = "sha256:{SHA}", size = 1 }},
]
"""


def package(name: str, version: str, more: str = "") -> str:
    wheels = WHEELS.replace("NAME", name).replace("VERSION", version)
    source = '{ registry = "https://pypi.org/simple" }'
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {source}\n{wheels}{more}\n'


UV = f"""version = 1
revision = 3
requires-python = ">=3.11"

{package("colorama", "0.4")}
{package("click", "8.1", 'dependencies = [{ name = "colorama", marker = "sys_platform == ' + "'win32'" + '" }]')}
{package("httpx", "1.0", "[package.optional-dependencies]" + chr(10) + 'http2 = [{ name = "h2" }]')}
{package("h2", "4.0", 'dependencies = [{ name = "httpx" }]')}
{package("numpy", "1.26")}
{package("numpy", "2.0")}
{package("pytest", "9.0")}
[[package]]
name = "thesis"
version = "0.3"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "click" }},
    {{ name = "httpx", extra = ["http2"] }},
    {{ name = "numpy", version = "1.26", source = {{ registry = "x" }}, marker = "python_full_version < '3.12'" }},
    {{ name = "numpy", version = "2.0", source = {{ registry = "x" }}, marker = "python_full_version >= '3.12'" }},
]
[package.dev-dependencies]
dev = [{{ name = "pytest" }}]
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_lock_of_uv_has_what_the_project_needs_on_this_python(tmp_path: Path) -> None:
    path = written(tmp_path, "uv.lock", UV)
    assert kind_of(path) is Kind.LOCK
    assert read_packages(path, Kind.LOCK) == Source(lock=path)
    found = {one.name: one.version for one in read_lock(path, LINUX)}
    assert found == {"click": "8.1", "httpx": "1.0", "h2": "4.0", "numpy": "1.26"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('virtual = "."', 'registry = "."', "write a file with 'uv export"),
        ('{ registry = "https://pypi.org/simple" }', '{ git = "https://x.org/click?rev=1#2" }', "as source code"),
        ("wheels = ", "others = ", "is not a lock of uv"),
        ("sha256:", "md5:", "no SHA-256"),
        ("https:", "ftp:", "neither a file nor an address"),
        (">=3.11", ">=3.12", "is not for the base's Python 3.11.2"),
        ('{ name = "click" }', '{ name = "gone" }', "is not a lock of uv"),
        ('{ name = "click" }', '"click"', "is not a lock of uv"),
        ("[[package]]", "[[packages]]", "is not a lock of uv"),
    ],
)
def test_locks_of_uv_that_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path, "uv.lock", UV.replace(old, new))
    with pytest.raises(SifmodError, match=said):
        read_lock(path, LINUX)
