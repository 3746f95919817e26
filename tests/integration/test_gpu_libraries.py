"""Whose libraries for GPUs come first: as `eb` finds by a look into the image, in whichever way the image is used."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from smallimage import small_layer

from conftest import HEAD, QUICK_BUILDS, User

PREPENDED = 'ENV_PREPEND_LD_LIBRARY_PATH", "/.singularity.d/libs"'
OWN = "wrappers = ['greet']\ngpu = 'nvidia'\n"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Root folders without and with a library of a driver, by whether it has one; the driver is a STAND-IN."""
    folder = tmp_path_factory.mktemp("trees")
    with tarfile.open(fileobj=io.BytesIO(small_layer())) as layer:
        for name in ("none", "driver"):
            layer.extractall(folder / name)  # noqa: S202 - our own
            (folder / name / "etc/ld.so.conf").write_text("/opt/x\n")
    (folder / "driver/opt/x").mkdir()
    (folder / "driver/opt/x/libnvidia-ml.so.1").touch()
    return {False: folder / "none", True: folder / "driver"}


@pytest.mark.parametrize("mode", ["copy", "link", "central", "unpacked"])
def test_host_driver_first_if_the_image_has_one(user: User, tmp_path: Path, trees: dict[bool, Path], mode: str) -> None:
    for has_drivers, tree in trees.items():
        image = tmp_path / f"{tree.name}.sif"
        user.env.update(QUICK_BUILDS)
        user.run(f"singularity build {'--sandbox' if mode == 'unpacked' else ''} {image} {tree}")
        kept = "central" if mode == "unpacked" else mode
        easyconfig = user.prefix / "Demo-1.0.eb"
        easyconfig.write_text(f"{HEAD}sources = ['{image}']\nimage_mode = '{kept}'\n{OWN}")
        log = user.eb(str(easyconfig), "--rebuild").stdout
        assert ("driver libraries of its own, so the host's come first: /opt/x/libnv" in log) == has_drivers
        recorded = json.loads((user.installdir("Demo/1.0") / "share/sifmod.json").read_text())
        assert recorded["has_drivers"] == has_drivers
        assert (PREPENDED in user.modulefile("Demo/1.0").read_text()) == has_drivers
        user.eb(str(easyconfig), "--rebuild", "--module-only")
        assert (PREPENDED in user.modulefile("Demo/1.0").read_text()) == has_drivers
        if mode == "copy":
            (user.prefix / "Mine-1.0.eb").write_text(
                f"{HEAD.replace('Demo', 'Mine')}builds_on = 'Demo/1.0'\nwrappers = ['greet']\n"
            )
            user.eb("Mine-1.0.eb", "--rebuild")
            assert (PREPENDED in user.modulefile("Mine/1.0").read_text()) == has_drivers
