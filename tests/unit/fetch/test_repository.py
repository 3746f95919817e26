from pathlib import Path

from sifmod.fetch.repository import image_in_repositories

from ..support import a_site


def test_an_image_is_taken_from_the_first_repository_that_has_it(tmp_path: Path) -> None:
    site = a_site(image_repositories=tuple(str(tmp_path / name) for name in ("gone", "file", "folder", "one", "two")))
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "demo.sif").mkdir(parents=True)
    assert image_in_repositories(site, "demo.sif") is None
    for name, content in (("one", b"1"), ("two", b"12")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "demo.sif").write_bytes(content)
    assert image_in_repositories(site, "demo.sif") == tmp_path / "one" / "demo.sif"
    assert image_in_repositories(site, "demo.sif", size=2) == tmp_path / "two" / "demo.sif"
    assert image_in_repositories(site, "demo.sif", size=3) is None
