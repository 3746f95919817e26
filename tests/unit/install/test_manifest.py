import json
from pathlib import Path

import pytest

from sifmod import names
from sifmod.errors import InstallError
from sifmod.install.manifest import Manifest, read_manifest


@pytest.fixture
def manifest():
    return Manifest(
        module="Demo/1.0-x",
        image="démo image.sif",
        image_source="/images/démo image.sif",
        image_sha256="0" * 64,
        image_size=12345,
        python_version="3.11",
        files=("bin/python", "démo image.sif", names.MANIFEST),
        tools={"sifmod": "0", "runtime": "fake 1.0"},
    )


@pytest.fixture
def path(tmp_path: Path):
    path = tmp_path / names.MANIFEST
    path.parent.mkdir()
    return path


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path, path, manifest) -> None:
    path.write_text(manifest.text, encoding="utf-8")
    assert read_manifest(tmp_path) == manifest


def test_the_text_is_json_with_sorted_keys_and_a_format(manifest) -> None:
    data = json.loads(manifest.text)
    assert list(data) == sorted(data)
    assert data["format"] == 1
    assert data["image_sha256"] == "0" * 64
    assert data["files"] == ["bin/python", "démo image.sif", "share/sifmod.json"]
    assert manifest.text.endswith("}\n")


def test_the_order_of_the_tools_does_not_change_the_text(manifest) -> None:
    swapped = Manifest(**{**manifest.__dict__, "tools": dict(reversed(list(manifest.tools.items())))})
    assert swapped.text == manifest.text


def test_where_nothing_was_installed_there_is_no_manifest(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "gone") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[]",
        "null",
        '"text"',
        "1",
        '{"format": 1}',
        '{"format": 1, "files": 3}',
        '{"format": 1, "files": [], "surprise": 1}',
        '{"format": 1, "module": 3, "image": "", "image_source": "", "image_sha256": "", "image_size": 1, '
        '"python_version": "", "files": [], "tools": {}}',
        '{"format": 1, "module": "a/1", "image": "", "image_source": "", "image_sha256": "", "image_size": "1", '
        '"python_version": "", "files": [], "tools": {}}',
        '{"format": 1, "module": "a/1", "image": "", "image_source": "", "image_sha256": "", "image_size": 1, '
        '"python_version": "", "files": [["x"]], "tools": {}}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_manifest_is_named_with_the_remedy(tmp_path: Path, path, text: object) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InstallError) as caught:
        read_manifest(tmp_path)
    assert f"'{path}'" in str(caught.value)
    assert "move it away and reinstall" in str(caught.value)


def test_a_folder_in_place_of_the_manifest_is_named(tmp_path: Path, path) -> None:
    path.mkdir()
    with pytest.raises(InstallError, match="can't be read"):
        read_manifest(tmp_path)
