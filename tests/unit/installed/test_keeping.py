import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sifmod import names
from sifmod.eb.space import SoftwareSpace
from sifmod.errors import InstallError
from sifmod.host.writing import remove_tree
from sifmod.installed import removal
from sifmod.installed.installation import Installation, find_installation
from sifmod.installed.keeping import keep, restore
from sifmod.installed.kept import RECORD
from sifmod.installed.removal import Removal

from ..support import SQUASHFS, make_installation, snapshot

MODULE = "Demo/1.0-x"


@pytest.fixture
def root(space: SoftwareSpace) -> Path:
    return make_installation(space, MODULE)


@pytest.fixture
def item(space: SoftwareSpace, root: Path) -> Installation:
    return find_installation(space, str(root))


def pack_with_layers(root: Path) -> None:
    (root / names.USER_SOFTWARE_LAYERS).mkdir()
    for number in (1, 2):
        (root / names.USER_SOFTWARE_LAYERS / f"{number}.squashfs").write_bytes(SQUASHFS + bytes([number]))
        (root / names.USER_SOFTWARE_LAYERS / f"{number}.txt").write_text(f"layer{number}==1\n")
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_LIST).write_text("greeting==1.0\n")
    (root / names.USER_SOFTWARE_SHA256).write_text("0" * 64 + "\n")


def unpacked(root: Path) -> None:
    (root / "user-software" / "venv" / "demo" / "bin" / "greet").write_text("hello")
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS)
    (root / names.USER_SOFTWARE_UNPACKED).touch()


@pytest.mark.parametrize("make", [pack_with_layers, unpacked])
def test_what_is_kept_comes_back(
    space: SoftwareSpace, item: Installation, root: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(root)
    before = snapshot(root)
    folder = Path(keep(item, tmp_path / "kept", say=print))
    assert Path(keep(item, tmp_path / "kept", say=print)) == folder  # nothing is left to do
    (root / names.USER_SOFTWARE_LOCK).unlink()
    assert snapshot(root) == before
    layers = [layer.path.name for layer in item.layers]
    state = item.user_software.state
    shutil.rmtree(root)
    again = find_installation(space, str(make_installation_anew(space)))
    folder.chmod(0o777)
    said: list[str] = []
    restore(again, folder, say=said.append)
    assert said[0] == f"Warning: everybody may have changed what is in '{folder}', and it runs as you from now on"
    assert again.user_software.state == state
    assert [layer.path.name for layer in again.layers] == layers
    assert not list(root.glob(f"{names.OURS}*"))
    restore(again, folder, say=print)  # nothing is left to do


def test_too_deep_folders(item: Installation, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "user-software")
    for _level in range(1000):
        Path("a").mkdir()
        os.chdir("a")
    os.chdir(tmp_path)
    with pytest.raises(InstallError, match="too many folders"):
        keep(item, tmp_path / "kept", say=print)
    with contextlib.suppress(OSError):  # Python 3.13 removes it
        remove_tree(root)
    subprocess.run(["rm", "-rf", "--", root / "user-software/a"], check=True)  # pytest could not


def make_installation_anew(space: SoftwareSpace) -> Path:
    shutil.rmtree(space.modules)
    return make_installation(space, MODULE)


def lose_a_layer(folder: Path) -> None:
    (folder / names.USER_SOFTWARE_LAYERS / "1.squashfs").unlink()


def damage(folder: Path) -> None:
    (folder / names.USER_SOFTWARE_PACKED).write_bytes(b"other")


def stop_before_the_end(folder: Path) -> None:
    (folder / RECORD).unlink()


def lead_out(folder: Path) -> None:
    data = json.loads((folder / RECORD).read_text())
    data["files"]["user-software/../../victim"] = "0" * 64
    (folder / RECORD).write_text(json.dumps(data))


def of_another_python(folder: Path) -> None:
    data = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps({**data, "python_version": "3.10"}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lose_a_layer, "is not as it was when it was kept"),
        (damage, "is not as it was when it was kept"),
        (stop_before_the_end, "was stopped before its end"),
        (lead_out, "can't be trusted"),
        (of_another_python, "with Python '3.10', and .* has '3.11'"),
    ],
)
def test_a_copy_that_is_not_whole_or_does_not_fit_is_refused(
    space: SoftwareSpace, item: Installation, root: Path, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    pack_with_layers(root)
    folder = Path(keep(item, tmp_path / "kept", say=print))
    spoil(folder)
    shutil.rmtree(root)
    again = find_installation(space, str(make_installation_anew(space)))
    before = snapshot(root)
    with pytest.raises(InstallError, match=words):
        restore(again, folder, say=print)
    (root / names.USER_SOFTWARE_LOCK).unlink(missing_ok=True)
    assert snapshot(root) == before


@pytest.mark.parametrize("moved", range(5))
def test_a_restore_that_was_killed_half_way_is_finished_by_the_next(
    space: SoftwareSpace,
    item: Installation,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moved: int,
) -> None:
    pack_with_layers(root)
    folder = Path(keep(item, tmp_path / "kept", say=print))
    shutil.rmtree(root)
    again = find_installation(space, str(make_installation_anew(space)))
    rename, moves = Path.rename, list(range(moved))

    def killed(path: Path, target: Path) -> Path:
        if path.parent.name == f"{names.OURS}restore" and (not moves or moves.pop() < 0):
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        patch.setattr("sifmod.installed.keeping.remove_tree", lambda _path: None)  # a kill leaves what was staged
        restore(again, folder, say=print)
    shutil.rmtree(space.lock(root), ignore_errors=True)
    restore(again, folder, say=print)
    assert len(again.layers) == 2
    assert again.user_software.state == "packed"
    assert not list(root.glob(f"{names.OURS}*"))


def test_user_software_that_is_there_is_not_lost(item: Installation, tmp_path: Path, root: Path) -> None:
    assert keep(item, tmp_path / "kept", say=print) == ""
    assert not (tmp_path / "kept").exists()
    pack_with_layers(root)
    folder = Path(keep(item, tmp_path / "kept", say=print))
    (root / names.USER_SOFTWARE_PACKED).write_bytes(SQUASHFS + b"newer")
    with pytest.raises(InstallError, match=r"has user software \(user-software.squashfs\), which would be lost"):
        restore(item, folder, say=print)
    assert (root / names.USER_SOFTWARE_PACKED).read_bytes() == SQUASHFS + b"newer"


def test_a_kept_copy_can_be_restored(space: SoftwareSpace, item: Installation, root: Path, tmp_path: Path) -> None:
    pack_with_layers(root)
    shutil.rmtree(root / names.USER_SOFTWARE_DIRECTORY)
    Removal(item, say=print).remove(keep=tmp_path / "kept")
    again = find_installation(space, str(make_installation(space, MODULE)))
    restore(again, tmp_path / "kept" / "Demo-1.0-x", say=print)
    assert len(again.layers) == 2


def test_a_swapped_folder(item: Installation, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(*_: object) -> None:
        (folder,) = (tmp_path / "kept").iterdir()
        folder.rename(tmp_path / "theirs")
        folder.symlink_to(root)
        raise InstallError("no record")

    unpacked(root)
    before = snapshot(root)
    monkeypatch.setattr(removal, "write_record", swap)
    for error in ("no record", "Not a directory"):
        with pytest.raises(InstallError, match=error):
            keep(item, tmp_path / "kept", say=print)
        (root / names.USER_SOFTWARE_LOCK).unlink()
        assert snapshot(root) == before
