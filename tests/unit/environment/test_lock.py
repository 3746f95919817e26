from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.programs import write_file

from sifmod.environment.lock import Locked, Platform, lock_text, locked_wheel, read_lock
from sifmod.errors import SifmodError

SHA = "ab" * 32
LINUX = Platform(
    environment={
        "implementation_name": "cpython",
        "implementation_version": "3.11.2",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "6.1",
        "platform_system": "Linux",
        "platform_version": "#1",
        "python_full_version": "3.11.2",
        "python_version": "3.11",
        "sys_platform": "linux",
    },
    tags=("cp311-cp311-manylinux_2_28_x86_64", "cp311-none-any", "py3-none-any"),
)
LOCKED = (
    Locked("greeting", "1.0", SHA, url="https://example.org/a%2Bb/greeting-1.0-py3-none-any.whl"),
    Locked("local-one", "2.0+x", SHA, path="/some folder/local_one-2.0+x-py3-none-any.whl"),
)
PACKAGE = f"""
[[packages]]
name = "greeting"
version = "1.0"
[[packages.wheels]]
url = "https://example.org/greeting-1.0-py3-none-any.whl"
hashes = {{sha256 = "{SHA}"}}
"""


def write(folder: Path, packages: str = PACKAGE, head: str = "") -> Path:
    return write_file(folder / "pylock.toml", f'lock-version = "1.0"\ncreated-by = "test"\n{head}\n{packages}')


def test_a_lock_that_was_written_is_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "some folder/pylock.toml"
    path.parent.mkdir()
    locked = (LOCKED[0], replace(LOCKED[1], path=f"{tmp_path}{LOCKED[1].path}"))
    path.write_text(lock_text(locked, LINUX, base="demo.sif"))
    assert read_lock(path, LINUX) == locked
    assert 'requires-python = "==3.11.*"' in path.read_text()
    text = PACKAGE.replace("url =", "path =").replace("https://example.org/", "wheels/")
    (found,) = read_lock(write(tmp_path, text), LINUX)
    assert found.path == f"{tmp_path}/wheels/greeting-1.0-py3-none-any.whl"


def test_the_line_for_pip_names_one_file_without_what_a_user_logs_in_with() -> None:
    assert LOCKED[1].line == f"local-one==2.0+x --hash=sha256:{SHA}"
    assert LOCKED[0].file_name == "greeting-1.0-py3-none-any.whl"
    found = locked_wheel("x", "1", "https://me:secret@example.org/x-1-py3-none-any.whl", SHA)
    assert found.url == "https://example.org/x-1-py3-none-any.whl"


def test_the_best_wheel_and_markers_of_the_base_count(tmp_path: Path) -> None:
    more = PACKAGE.replace("[[packages]]", "[[packages]]\nmarker = \"sys_platform == 'win32'\"").replace(
        "greeting", "x"
    )
    wheel = f"""[[packages.wheels]]
url = "https://example.org/greeting-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
hashes = {{sha256 = "{SHA}"}}
"""
    (found,) = read_lock(write(tmp_path, PACKAGE + wheel + more), LINUX)
    assert found.file_name == "greeting-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("head", "old", "new", "said"),
    [
        ('requires-python = ">=3.12"', "", "", "is not for the base's Python 3.11.2 on linux x86_64"),
        ("environments = [\"sys_platform == 'darwin'\"]", "", "", "is not for the base's Python"),
        ("", "py3-none-any", "cp312-cp312-win_amd64", "is not for the base's Python"),
        ("", "py3-none-any", "py3-none-macosx_11_0_arm64", "is not for the base's Python"),
        ("", 'version = "1.0"', 'requires-python = ">=3.12"', "is not for the base's Python"),
        ("", SHA, "xyz", "no SHA-256"),
        ("", "sha256 =", "md5 =", "no SHA-256"),
        ("", "https:", "ftp:", "neither a file nor an address"),
        ("", "example.org/", "example.org/{{x}}/", "characters"),
        ("", "example.org/", "example.org/\\n%post/", "characters"),
        ("", "/greeting-1.0", "/other-1.0", "format pylock.toml"),
        ("", "/greeting-1.0", "/greeting-2.0", "format pylock.toml"),
        ("", "greeting-1.0-py3-none-any.whl", "greeting.zip", "format pylock.toml"),
        ("", 'name = "greeting"', 'name = "../x"', "format pylock.toml"),
        ('lock-version = "9.0"', "", "", "is not TOML"),
        ("", "[[packages.wheels]]", "[packages.sdist]", "only source code"),
        ("", "[[packages.wheels]]", "[packages.archive]", "only source code"),
    ],
)
def test_locks_that_are_refused(tmp_path: Path, head: str, old: str, new: str, said: str) -> None:
    text = PACKAGE.replace(old, new)
    if "sdist" in new:
        text = text.replace("-py3-none-any.whl", ".tar.gz")
    with pytest.raises(SifmodError, match=r"pylock\.toml") as caught:
        read_lock(write(tmp_path, text, head), LINUX)
    assert said in str(caught.value)


# As uv 0.13.9 and pip 26.3 write them.
UV = f"""lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.11"

[[packages]]
name = "cowsay"
version = "6.1"
index = "https://pypi.org/simple"
wheels = [{{ url = "https://x.org/cowsay-6.1-py3-none-any.whl", upload-time = 2023-09-25T16:30:01Z, size = 25560, \
hashes = {{ sha256 = "{SHA}" }} }}]
"""
PIP = f"""lock-version = "1.0"
created-by = "pip"

[[packages]]
name = "cowsay"
version = "6.1"

[[packages.wheels]]
name = "cowsay-6.1-py3-none-any.whl"
url = "file:///w/cowsay-6.1-py3-none-any.whl"

[packages.wheels.hashes]
sha256 = "{SHA}"
"""


@pytest.mark.parametrize(("text", "place"), [(UV, "https://x.org/"), (PIP, "/w/")])
def test_locks_of_uv_and_pip(tmp_path: Path, text: str, place: str) -> None:
    path = write_file(tmp_path / "pylock.toml", text.replace("/w/", f"{tmp_path}/w/"))
    (found,) = read_lock(path, LINUX)
    place = place.replace("/w/", f"{tmp_path}/w/")
    assert (found.name, found.version, found.url or found.path) == (
        "cowsay",
        "6.1",
        f"{place}cowsay-6.1-py3-none-any.whl",
    )


@pytest.mark.parametrize("place", ["/elsewhere/", "../", "a/../../", "link/"])
def test_wheels_outside_of_its_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """A build copies them into the image, wherever a stranger's lock says they are."""
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone/link").symlink_to(tmp_path)
    path = write(tmp_path / "clone", PACKAGE.replace("url =", "path =").replace("https://example.org/", place))
    with pytest.raises(SifmodError, match=r"not below .*/clone', where the file is: put a copy there, or set PIP_FIND"):
        read_lock(path, LINUX)
    if place == "../":
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        assert read_lock(path, LINUX)[0].path == f"{tmp_path}/greeting-1.0-py3-none-any.whl"


def test_the_project_itself_an_unknown_format_or_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone/pylock.toml").symlink_to(write(tmp_path, "token = 'secret'"))
    with pytest.raises(SifmodError, match="it leads out of its folder") as caught:
        read_lock(tmp_path / "clone/pylock.toml", LINUX)
    assert "secret" not in str(caught.value)
    project = '[[packages]]\nname = "thesis"\nversion = "0.3"\ndirectory = { path = ".", editable = true }\n'
    with pytest.raises(SifmodError, match=r"has thesis as a source folder.*'uv export --no-emit-project"):
        read_lock(write(tmp_path, PACKAGE + project), LINUX)
    path = write(tmp_path)
    path.write_text(path.read_text().replace('"1.0"', '"2.0"', 1))
    with pytest.raises(SifmodError, match=r"not a lock in the format pylock\.toml"):
        read_lock(path, LINUX)


# `http://h/x-1.0-1%0A%25setup%0A...-py3-none-any.whl` is a build tag with a section of a definition file in it.
@pytest.mark.parametrize(
    "name",
    [
        "x-1.0-1%0A%25setup%0Atouch%20pwned%0A-py3-none-any.whl",
        "x-1.0-1%0AEND%0A-py3-none-any.whl",
        "x-1.0-1%0D-py3-none-any.whl",
        "x-1.0-1%E2%80%A8-py3-none-any.whl",
        "x-1.0-1%24(id)-py3-none-any.whl",
        "x-1.0-1'-py3-none-any.whl",
        "x-1.0-1%00-py3-none-any.whl",
        "x-1.0-1${PATH}-py3-none-any.whl",
    ],
)
@pytest.mark.parametrize("folder", ["https://h/", "file:///w/", "/w/"])
def test_file_names_of_wheels_have_letters_and_digits_only(folder: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"wheel|address|the path"):
        locked_wheel("x", "1.0", folder + (unquote(name) if folder == "/w/" else name), SHA)


@pytest.mark.parametrize("folder", ["/a\n/", "file://other/", "", "/a^b/", "file:///a%0Ab/"])
def test_places_that_no_definition_can_hold(folder: str) -> None:
    with pytest.raises(ValueError, match=r"address|the path"):
        locked_wheel("x", "1", f"{folder}x-1-py3-none-any.whl", SHA)


@pytest.mark.parametrize("file", ["y-1-py3-none-any.whl", "x-2-py3-none-any.whl"])
def test_a_wheel_of_another_package_or_version_is_refused(file: str) -> None:
    with pytest.raises(ValueError, match="another package"):
        locked_wheel("x", "1", f"https://example.org/{file}", SHA)
