"""Bills of materials of installed images: each image once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sifmod.eb.space import SoftwareSpace
from sifmod.errors import SifmodError
from sifmod.installed.installation import Installation, find_installations
from sifmod.upkeep.boms import write_boms

from ..imagetrees import linux, squashfs
from ..support import Need, make_installation


@pytest.fixture
def items(tmp_path: Path, need: Need) -> tuple[Installation, ...]:
    image = squashfs(need("mksquashfs"), linux(tmp_path / "tree"), tmp_path / "image.squashfs")
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    space = SoftwareSpace(software=tmp_path / "software", modules=tmp_path / "modules")
    for version in "123":
        root = make_installation(space, f"Demo/{version}", image_sha256=sha256, image_size=image.stat().st_size)
        (root / "demo.sif").write_bytes(image.read_bytes())
    make_installation(space, "Linked/1", image_sha256="", image_id="0" * 32)
    return find_installations(space).installations


def test_an_image_is_written_once_and_what_is_known_is_not_read(
    items: tuple[Installation, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "boms"
    *same, linked = write_boms(items, folder, seconds_of=lambda _created: 0)
    assert [one.is_new for one in same] == [True, False, False]
    sha256 = items[0].manifest.image_sha256
    assert {one.path for one in same} == {folder / f"{sha256}.cdx.json"}
    document = json.loads(same[0].path.read_text())
    assert document["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": sha256}]
    assert "demo.sif' is damaged" in linked.problem
    for item in items:
        item.image.unlink()
    before = same[0].path.stat()
    again = write_boms(items, folder, seconds_of=lambda _created: 0)
    assert not any(one.is_new for one in again)
    assert same[0].path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_folder_that_can_not_be_made_is_named(items: tuple[Installation, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SifmodError, match="can't be made"):
        write_boms(items, tmp_path / "file/boms", seconds_of=lambda _created: 0)
