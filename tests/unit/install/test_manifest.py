import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

import pytest

from sifmod import names
from sifmod.container.spec import Base
from sifmod.errors import InstallError
from sifmod.install.manifest import Manifest, read_manifest


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        module="Demo/1.0-x",
        image="démo image.sif",
        image_source="/images/démo image.sif",
        image_sha256="0" * 64,
        image_size=12345,
        python_version="3.11",
        files=("bin/python", "demo.sqsh", "démo image.sif", names.MANIFEST),
        tools={"sifmod": "0", "runtime": "fake 1.0"},
        name="Demo",
        version="1.0-x",
        full_module="Core/Demo/1.0-x",
        install_subdir="Demo/1.0-x",
        bases=(Base("Team/1", "/apps/Team/1", "demo", "3.11", "ab"), Base("X/1", "/apps/it's,X", "", "", "")),
        parameters={"venv": "demo", "binds": ["/a"], "container_env": {"A": None}, "pip_constraints": False},
        squashfs="demo.sqsh",
        squashfs_sha256="1" * 64,
        squashfs_size=12000,
        misfits={"mpi": "libmpi.so.12 of the host needs glibc 2.36, but the image has glibc 2.31"},
        module_files={"/modules/all/Core/Demo/1.0-x.lua": "0" * 64, "/modules/lang/Demo/1.0-x.lua": ""},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / names.MANIFEST
    path.parent.mkdir()
    return path


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path, path: Path, manifest: Manifest) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "gone") is None
    path.write_text(manifest.text, encoding="utf-8")
    assert read_manifest(tmp_path) == manifest
    path.write_text(changed(manifest, surprise={"any": ["thing"]}), encoding="utf-8")
    assert read_manifest(tmp_path) == manifest
    data = json.loads(manifest.text)
    assert list(data) == sorted(data)
    assert data["image_sha256"] == "0" * 64
    assert data["files"] == ["bin/python", "demo.sqsh", "démo image.sif", "share/sifmod.json"]
    assert manifest.text.endswith("}\n")
    swapped = Manifest(**{**manifest.__dict__, "tools": dict(reversed(list(manifest.tools.items())))})
    assert swapped.text == manifest.text


@pytest.mark.parametrize("name", ["bin/python", "démo image.sif", "demo.sqsh", "nobody's", names.MANIFEST, "../x"])
def test_an_old_image_is_another_installed_file(tmp_path: Path, path: Path, manifest: Manifest, name: str) -> None:
    path.write_text(replace(manifest, old_images=(name,)).text, encoding="utf-8")
    with pytest.raises(InstallError, match="which can't be an old image"):
        read_manifest(tmp_path)


NARROW: dict[str, tuple[object, ...]] = {
    "root": ("apps", "/apps/../etc", "/apps//x", "/a,b:c", "/apps\n", 1),
    "module": ("x\x1b[2J", "/x", "-x", "x/.."),
    "venv": ("../x", ".."),
    "python_version": ('3.11" ',),
    "image_id": (None,),
}


@pytest.mark.parametrize("key", NARROW)
def test_a_base_is_an_absolute_path_and_narrow(tmp_path: Path, path: Path, manifest: Manifest, key: str) -> None:
    for value in NARROW[key]:
        changes: dict[str, Any] = {key: value}
        path.write_text(replace(manifest, bases=(replace(manifest.bases[0], **changes),)).text, encoding="utf-8")
        with pytest.raises(InstallError, match="one of its bases is"):
            read_manifest(tmp_path)


@pytest.mark.parametrize(("key", "value"), [("image_sha256", "../../x"), ("image_digest", "sha256:1/../x")])
def test_wrong_digests_are_refused(tmp_path: Path, path: Path, manifest: Manifest, key: str, value: str) -> None:
    changes: dict[str, Any] = {key: value}
    path.write_text(replace(manifest, **changes).text, encoding="utf-8")
    with pytest.raises(InstallError, match=f"its {key} is"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("value", [1, [1], [{}], "x", {"a": 1}, [{"root": "/x"}]])
def test_bases_of_another_type(tmp_path: Path, path: Path, manifest: Manifest, value: Any) -> None:
    data = json.loads(manifest.text)
    path.write_text(json.dumps({**data, "bases": value}))
    with pytest.raises(InstallError, match="can't be read"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"squashfs": "bin/python"}, "its squashfs is 'bin/python'"),
        ({"squashfs": "nobody's"}, "not among its files"),
        ({"squashfs": "/team/demo.sqsh", "bases": ()}, "not among its files"),
        ({"squashfs": "/team/../demo.sqsh"}, "not among its files"),
        ({"squashfs": "démo image.sif"}, "which is the image"),
        ({"squashfs": 1}, "its squashfs is 1"),
        ({"squashfs_sha256": ""}, "its squashfs_sha256 is ''"),
        ({"squashfs_sha256": "1" * 63 + "/"}, "its squashfs_sha256 is"),
        ({"squashfs": ""}, "its squashfs_sha256 is"),
        ({"squashfs_size": "12"}, "its squashfs_size is '12'"),
    ],
)
def test_images_for_enroot(tmp_path: Path, path: Path, manifest: Manifest, changes: dict[str, Any], said: str) -> None:
    path.write_text(replace(manifest, **changes).text, encoding="utf-8")
    with pytest.raises(InstallError, match=re.escape(said)):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("venv", "bases", "number"),
    [("", (), 1), ("demo", (), 2), ("", (Base("Demo/1", "/apps/Demo/1", "", "", ""),), 2)],
)
def test_unknown_layers_raise_the_format(manifest: Manifest, venv: str, bases: tuple[Base, ...], number: int) -> None:
    """The module's own commands make layers, so it is that of every installation that can have them."""
    assert json.loads(replace(manifest, venv=venv, bases=bases).text)["format"] == number


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
def test_a_damaged_manifest_is_named_with_the_remedy(tmp_path: Path, path: Path, text: Union[str, bytes]) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InstallError) as caught:
        read_manifest(tmp_path)
    assert f"'{path}'" in str(caught.value)
    assert "move it away and reinstall" in str(caught.value)


def test_a_folder_in_place_of_the_manifest_is_named(tmp_path: Path, path: Path) -> None:
    path.mkdir()
    with pytest.raises(InstallError, match="can't be read"):
        read_manifest(tmp_path)


def test_nested_without_end_is_damage(tmp_path: Path, path: Path) -> None:
    path.write_text("[" * 100_000)
    with pytest.raises(InstallError, match="move it away"):
        read_manifest(tmp_path)


@pytest.mark.timeout(240)  # reading would never end
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_never_ends_is_not_read(tmp_path: Path, path: Path, put: Callable[[Path], None]) -> None:
    put(path)
    with pytest.raises(InstallError, match="not a plain file"):
        read_manifest(tmp_path)


def changed(manifest: Manifest, **values: object) -> str:
    """Return the text of a manifest with other values."""
    return json.dumps({**json.loads(manifest.text), **values})


@pytest.mark.parametrize("more", [{}, {"tools": {"sifmod": "7.1"}}, {"tools": 3, "files": {"not": "a list"}}], ids=str)
def test_a_newer_format_is_named_and_left_alone(tmp_path: Path, path: Path, more: dict[str, object]) -> None:
    path.write_text(json.dumps({"format": 3, **more}), encoding="utf-8")
    with pytest.raises(
        InstallError, match=r"was written by a newer sifmod \(.*format 3; .* Nothing was changed"
    ) as caught:
        read_manifest(tmp_path)
    assert ("'7.1'" in str(caught.value)) == (more == {"tools": {"sifmod": "7.1"}})


@pytest.mark.parametrize("number", [0, -1, "1", 1.0, True, None, [1]], ids=repr)
def test_a_format_that_is_none_is_damage(tmp_path: Path, path: Path, manifest: Manifest, number: object) -> None:
    path.write_text(changed(manifest, format=number), encoding="utf-8")
    with pytest.raises(InstallError, match=r"its format is .*: move it away"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["../../../victim-file", "/etc/passwd", "bin/../../x", "a\nb", "user-software", ""])
def test_names_outside_the_installation_refused(tmp_path: Path, path: Path, manifest: Manifest, name: str) -> None:
    changes: tuple[dict[str, object], ...] = (
        {"files": ["bin/python", name]},
        {"hashes": {name: "0" * 64}},
        {"image": name},
    )
    for values in changes:
        path.write_text(changed(manifest, **values), encoding="utf-8")
        with pytest.raises(InstallError) as caught:
            read_manifest(tmp_path)
        assert repr(name) in str(caught.value)
        assert str(caught.value).isprintable()


PARTS_OF_PATHS: dict[str, tuple[object, ...]] = {
    "image": ("bin/python",),
    "python_version": ("3.11\necho CODE", "3", "\N{ARABIC-INDIC DIGIT THREE}.1"),
    "venv": ("../../x", "..", "a b"),
    "name": ("../x", ".."),
    "misfits": ({"mpi": "one line\nand another"}, {"a b": "why"}),
    "module": ("Demo/1.0-x\nanother line", "--force", "Demo/1;id", "Demo/$(id)", "Demo/1 x"),
    "full_module": ("Demo/1.0-x\x1b[2J", "/etc/Demo/1.0", "Demo/../../1.0", "-Demo/1.0"),
    "version": ("1.0\r",),
    "install_subdir": ("../x", "/x"),
    "module_files": ({"/modules/../x": ""}, {"modules/x": ""}, {"/modules/\n": ""}),
    "image_source": ("/images/\0", "/images/\ud800"),
    "image_size": (10**400,),
    "squashfs_size": (-1,),
}


@pytest.mark.parametrize("key", PARTS_OF_PATHS)
def test_values_that_become_parts_of_paths_are_narrow(tmp_path: Path, path: Path, manifest: Manifest, key: str) -> None:
    for value in PARTS_OF_PATHS[key]:
        path.write_text(changed(manifest, **{key: value}), encoding="utf-8")
        with pytest.raises(InstallError, match=f"its {key}"):
            read_manifest(tmp_path)


def test_a_manifest_of_an_earlier_sifmod_has_no_names(tmp_path: Path, path: Path, manifest: Manifest) -> None:
    data = json.loads(manifest.text)
    for name in ("name", "version", "full_module", "install_subdir", "module_files"):
        del data[name]
    path.write_text(json.dumps(data))
    found = read_manifest(tmp_path)
    assert found
    assert (found.module, found.name, found.module_files) == ("Demo/1.0-x", "", {})
