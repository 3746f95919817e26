"""Locks of uv, poetry and pdm as they write them (uv 0.13, poetry 2.5, pdm 2.29)."""

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


FILES = f"""files = [
    {{file = "click-8.1-py3-none-any.whl", hash = "sha256:{SHA}"}},
    {{file = "click-8.1.tar.gz", hash = "sha256:{SHA[::-1]}"}},
]
"""
POETRY = f"""[[package]]
name = "click"
version = "8.1"
optional = false
python-versions = ">=3.7"
groups = ["main", "dev"]
markers = {{main = "sys_platform == 'linux'"}}
{FILES}
[[package]]
name = "colorama"
version = "0.4"
optional = false
groups = ["main"]
markers = "platform_system == \\"Windows\\""
{FILES}
[package.extras]
all = ["plots"]

[package.source]
type = "legacy"
url = "https://pypi.centre.example/simple"
reference = "mirror"

[[package]]
name = "plots"
version = "1.0"
optional = true
groups = ["main"]
{FILES}
[[package]]
name = "pytest"
version = "9.0"
groups = ["dev"]
{FILES}
[metadata]
lock-version = "2.1"
"""
PDM = f"""[metadata]
groups = ["default", "dev"]
strategy = ["inherit_metadata"]
lock_version = "4.5.0"

[[package]]
name = "click"
version = "8.1"
groups = ["default"]
marker = "sys_platform == 'linux'"
{FILES}
[[package]]
name = "colorama"
version = "0.4"
groups = ["default"]
marker = "platform_system == \\"Windows\\""
{FILES}
[[package]]
name = "colorama"
version = "0.4"
extras = ["all"]
groups = ["default"]
{FILES}
[[package]]
name = "pytest"
version = "9.0"
groups = ["dev"]
{FILES}
"""
HASHES = f"--hash=sha256:{SHA} --hash=sha256:{SHA[::-1]}"


@pytest.mark.parametrize(("name", "text"), [("poetry.lock", POETRY), ("pdm.lock", PDM)])
def test_locks_without_addresses_become_requirements_with_hashes(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path, name, text)
    found = read_packages(path, kind_of(path))
    assert isinstance(found, Source)
    assert found.requirements
    assert found.requirements.lines == (
        f"click==8.1 ; sys_platform == 'linux' {HASHES}",
        f'colorama==0.4 ; platform_system == "Windows" {HASHES}',
    )
    assert (found.requirements.names, found.origin) == (("click", "colorama"), name)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("poetry.lock", POETRY.replace("groups", "category"), "write a file with 'poetry export"),
        ("pdm.lock", PDM.replace("groups", "others"), "write a file with 'pdm export"),
        (
            "poetry.lock",
            POETRY.replace("[metadata]", "[package.source]\ntype = 'git'\n[metadata]").replace('"dev"', '"main"'),
            "takes pytest from a place of its own",
        ),
        ("pdm.lock", PDM.replace("marker =", "url ="), "takes click from a place of its own"),
        ("pdm.lock", PDM.replace("sha256:", "md5:"), "is not a SHA-2 hash"),
        ("pdm.lock", PDM.replace('"8.1"', '"8.1 --index-url=http://x"'), "options of a single package"),
        ("pdm.lock", PDM.replace('"8.1"', '"${TOKEN}"'), "pip would replace the variable"),
        ("pdm.lock", PDM.replace('"default"', '"x"'), "names no packages"),
        ("poetry.lock", "", "write a file with 'poetry export"),
    ],
)
def test_locks_without_addresses_that_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(SifmodError, match=said):
        read_packages(path, kind_of(path))
