"""The image for enroot: what an install writes besides the SIF, and that it goes where the SIF goes."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sifmod.errors import ImageError, SifmodError
from sifmod.install.installer import refresh_scripts
from sifmod.install.rollback import undo
from sifmod.render.templates import render
from sifmod.site.settings import Site

from ..imagetrees import SifObject, partition, sif, signature
from ..imagetrees import squashfs as pack
from ..support import FakeRuntime, Need, a_site, a_spec, mode_of, snapshot
from . import test_installer
from .test_installer import Install, manifest_of

ENROOT = a_site(runtimes=("apptainer", "enroot"))


def squashfs(size: int = 5_000_000, *, length: int = 0) -> bytes:
    """Return what begins as a SquashFS of `length` bytes does, by default of all."""
    head = b"hsqs" + bytes(36) + (length or size).to_bytes(8, "little")
    return head + os.urandom(size - len(head))


@pytest.fixture
def content() -> bytes:
    return squashfs()


@pytest.fixture
def image(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "images").mkdir()
    return sif(tmp_path / "images" / "demo.sif", partition(b"#!/bin/sh\n", part=3), partition(content))


@pytest.fixture
def installdir(tmp_path: Path) -> Path:
    return tmp_path / "apps" / "Demo" / "1.0 it's,a:b"


@pytest.fixture
def install(fake: FakeRuntime, image: Path, installdir: Path) -> Install:
    return Install(fake, image, installdir)


def images(installdir: Path) -> list[str]:
    return sorted(path.name for path in installdir.iterdir() if path.suffix in (".sif", ".sqsh"))


@pytest.mark.parametrize("mode", ["copy", "link", "central"])
def test_the_root_file_system_is_beside_it(install: Install, installdir: Path, content: bytes, mode: str) -> None:
    spec = install(site=ENROOT, image_mode=mode)
    assert (installdir / "demo.sqsh").read_bytes() == content
    assert mode_of(installdir / "demo.sqsh") & 0o111 == 0
    manifest = manifest_of(installdir)
    assert (spec.squashfs, manifest.squashfs, manifest.squashfs_size) == ("demo.sqsh", "demo.sqsh", len(content))
    assert manifest.squashfs_sha256 == hashlib.sha256(content).hexdigest()
    assert "writing demo.sqsh, the image for enroot" in install.said
    files = {str(path.relative_to(installdir)) for path in installdir.rglob("*") if path.is_file()}
    own = {name for name in files if not name.startswith(("user-software/", "user-bin/"))}
    assert own == set(manifest.files)
    for artefact in render(spec, ENROOT):
        assert (installdir / artefact.path).read_text() == artefact.text


def test_the_tools_of_enroot_agree(install: Install, installdir: Path, image: Path, tmp_path: Path, need: Need) -> None:
    """enroot asks `unsquashfs -s` whether a file is an image, and unpacks it with that."""
    (tmp_path / "tree" / "etc").mkdir(parents=True)
    (tmp_path / "tree" / "etc" / "os-release").write_text("ID=demo\n")
    packed = pack(need("mksquashfs"), tmp_path / "tree", tmp_path / "tree.sqfs")
    sif(image, partition(packed.read_bytes()), signature(bytes(20)))
    install(site=ENROOT, python=None, python_version="", venv="", wrappers=())
    unsquashfs = need("unsquashfs")
    subprocess.run([unsquashfs, "-s", installdir / "demo.sqsh"], check=True, capture_output=True)
    done = subprocess.run(
        [unsquashfs, "-cat", installdir / "demo.sqsh", "etc/os-release"], check=True, capture_output=True
    )
    assert done.stdout == b"ID=demo\n"


@pytest.mark.parametrize("runtimes", [(), ("apptainer",)])
def test_a_site_without_enroot(install: Install, installdir: Path, image: Path, runtimes: tuple[str, ...]) -> None:
    sif(image, partition(squashfs(200), kind=2))  # ext3, which only enroot can't use
    spec = install(site=a_site(runtimes=runtimes))
    assert (spec.squashfs, manifest_of(installdir).squashfs, images(installdir)) == ("", "", ["demo.sif"])


UNFIT: dict[str, tuple[tuple[SifObject, ...], str]] = {
    "none": ((partition(b"data", part=3),), "it has no root file system"),
    "ext3": ((partition(squashfs(200), kind=2),), "the file system of its root is ext3"),
    "encrypted": ((partition(squashfs(200), kind=5),), "the file system of its root is encrypted squashfs"),
    "unknown": ((partition(squashfs(200), kind=99),), "the file system of its root is unknown"),
    "other bytes": ((partition(bytes(200)),), "what it names as SquashFS does not begin as one"),
    "short": ((partition(squashfs(200, length=201)),), "its SquashFS has 201 bytes, in a partition of 200"),
    "tiny": ((partition(b"hsqs"),), "its SquashFS has 0 bytes, in a partition of 4"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_image_unfit_for_enroot_is_refused(install: Install, installdir: Path, image: Path, case: str) -> None:
    objects, found = UNFIT[case]
    sif(image, *objects)
    with pytest.raises(ImageError) as refused:
        install(site=ENROOT)
    assert str(refused.value) == (
        f"the image '{image}' has no SquashFS partition, which enroot needs ({found}): build the image again, or take "
        "enroot out of 'runtimes' in the site file"
    )
    assert not installdir.exists()
    assert (install.said, install.fake.calls) == ([], [])


def test_what_is_no_sif_is_refused_before_anything_is_written(install: Install, installdir: Path, image: Path) -> None:
    image.write_bytes(squashfs(200))
    with pytest.raises(ImageError, match="is not a SIF but a bare SquashFS file"):
        install(site=ENROOT)
    assert not installdir.exists()


def test_a_failure_keeps_the_earlier_image(install: Install, installdir: Path, fake: FakeRuntime, image: Path) -> None:
    install(site=ENROOT)
    before = snapshot(installdir)
    sif(image, partition(squashfs(300)))
    fake.answer(fail="probe")
    with pytest.raises(SifmodError):
        install(site=ENROOT)
    assert snapshot(installdir) == before


def test_a_rollback_restores(install: Install, installdir: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site=ENROOT)
    before = snapshot(installdir)
    new = squashfs(300)
    sif(image, partition(new))
    # so that what was replaced is not forgotten
    monkeypatch.setattr(test_installer, "forget", lambda _installdir: None)
    install(site=ENROOT)
    assert (installdir / "demo.sqsh").read_bytes() == new
    assert manifest_of(installdir).squashfs_size == 300
    undo(installdir)
    assert snapshot(installdir) == before


def test_a_rollback_to_none_removes_it(install: Install, installdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    before = snapshot(installdir)
    monkeypatch.setattr(test_installer, "forget", lambda _installdir: None)
    install(site=ENROOT)
    assert images(installdir) == ["demo.sif", "demo.sqsh"]
    undo(installdir)
    assert snapshot(installdir) == before


def test_it_stays_for_one_generation_as_the_image_does(install: Install, installdir: Path) -> None:
    install(site=ENROOT, sif="old.sif")
    install(site=ENROOT, sif="new.sif")
    assert images(installdir) == ["new.sif", "new.sqsh", "old.sif", "old.sqsh"]
    assert manifest_of(installdir).old_images == ("old.sif", "old.sqsh")
    install(site=ENROOT, sif="new.sif")
    assert images(installdir) == ["new.sif", "new.sqsh"]
    install(site=ENROOT)
    install()
    assert (images(installdir), manifest_of(installdir).old_images) == (["demo.sif", "demo.sqsh"], ("demo.sqsh",))
    install(site=ENROOT)
    assert (images(installdir), manifest_of(installdir).old_images) == (["demo.sif", "demo.sqsh"], ())
    install()
    install()
    assert images(installdir) == ["demo.sif"]


def test_its_space_counts_too(install: Install, installdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site=ENROOT, sif="old.sif", image_mode="central")
    install(site=ENROOT, sif="new.sif", image_mode="central")
    assert manifest_of(installdir).old_images == ("old.sqsh",)
    short = shutil.disk_usage(installdir)._replace(free=4_999_999)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: short)
    install(site=ENROOT, sif="newer.sif", image_mode="central")
    assert "removing old.sqsh: the new image needs the space" in install.said


def test_a_refresh_of_the_scripts_leaves_it_alone(install: Install, installdir: Path) -> None:
    spec = install(site=ENROOT)
    before = manifest_of(installdir)
    refresh_scripts(spec, Site(**{**vars(ENROOT), "master_suffix": "-ib"}))
    after = manifest_of(installdir)
    assert (after.squashfs, after.squashfs_sha256) == (before.squashfs, before.squashfs_sha256)
    assert images(installdir) == ["demo.sif", "demo.sqsh"]


@pytest.mark.parametrize(("name", "expected"), [("a.b.sif", "a.b.sqsh"), ("x.img", "x.img.sqsh"), ("sif", "sif.sqsh")])
def test_its_name_is_that_of_the_sif(install: Install, installdir: Path, name: str, expected: str) -> None:
    assert install(site=ENROOT, sif=name).squashfs == expected
    assert (installdir / expected).is_file()
    assert a_spec().squashfs == ""
