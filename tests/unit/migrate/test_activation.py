"""The conda environment that an image names, found as an install finds the image."""

from pathlib import Path

import pytest

from sifmod.migrate.activation import with_conda

from .. import imagetrees
from ..support import Need, a_site

COMMAND = "source /opt/miniconda3/bin/activate pytorch"
VARIABLES = {"name": "PyTorch", "sources": [{"filename": "x.sif"}]}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return the folders in which an install looks for an image."""
    monkeypatch.setenv("EASYBUILD_SOURCEPATH", str(tmp_path / "sources"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    return {
        "repository": tmp_path / "repository",
        "sources": tmp_path / "sources",
        "letter": tmp_path / "sources/p/PyTorch",
        "beside": tmp_path / "easyconfigs",
    }


@pytest.fixture
def image(tmp_path: Path, need: Need) -> Path:
    """Return a SIF that names its conda environment as LUMI's images do."""
    top = imagetrees.linux(tmp_path / "tree")
    text = f'export WITH_CONDA="${{WITH_CONDA:-"{COMMAND}"}}"\n'
    imagetrees.write(top, "/.singularity.d/env/10-docker2singularity.sh", text)
    packed = imagetrees.squashfs(need("mksquashfs"), top, tmp_path / "tree.squashfs")
    return imagetrees.sif(tmp_path / "made.sif", imagetrees.partition(packed.read_bytes()))


@pytest.mark.parametrize("place", ["repository", "sources", "letter", "beside"])
def test_the_command_is_read_from_the_image_wherever_it_lies(place: str, places: dict[str, Path], image: Path) -> None:
    site = a_site(image_repositories=(str(places["repository"]),))
    easyconfig = places["beside"] / "x.eb"
    assert with_conda(easyconfig, VARIABLES, site) == ""
    places[place].mkdir(parents=True)
    image.rename(places[place] / "x.sif")
    assert with_conda(easyconfig, VARIABLES, site) == COMMAND
    assert with_conda(easyconfig, {**VARIABLES, "sources": ["../x.sif"]}, site) == ""


def test_a_damaged_image_tells_nothing(places: dict[str, Path]) -> None:
    places["beside"].mkdir()
    (places["beside"] / "x.sif").write_bytes(b"damaged")
    assert with_conda(places["beside"] / "x.eb", VARIABLES, a_site()) == ""
