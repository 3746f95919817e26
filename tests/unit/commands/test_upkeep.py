"""`sifmod outdated` and `sifmod workflows`: output and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sifmod.cli import cli
from sifmod.eb.space import software_space

from ..support import a_runner, make_installation


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("SIFMOD_INSECURE_REGISTRIES", "127.0.0.1:9")
    for name in ("CONTAINERROOT", "MODULEPATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "eb").mkdir()
    return make_installation(software_space(), "Demo/1", image_origin="docker://127.0.0.1:9/a/b:1")


def called(*words: object) -> tuple[int, str, str]:
    result = a_runner().invoke(cli, [*map(str, words)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.usefixtures("root")
def test_a_registry_that_is_away_is_named_and_not_fatal() -> None:
    make_installation(software_space(), "Other/1", image_origin="docker://127.0.0.1:9/a/c:1")
    status, out, err = called("outdated")
    assert (status, out.splitlines()[-1]) == (0, "0 of 2 modules outdated")
    assert "note: Demo/1, Other/1: the registry 127.0.0.1:9 can't be reached from here" in err
    (one,) = json.loads(called("outdated", "--json", "Demo/1")[1])
    assert (one["module"], one["moved"], one["newer"]) == ("Demo/1", False, [])


def test_a_damaged_installation_is_named_and_left_out(root: Path) -> None:
    damaged = make_installation(software_space(), "Other/1")
    (damaged / "share/sifmod.json").write_text("{")
    for words, status in ((("outdated",), 1), (("outdated", "Demo"), 0), (("workflows", "snakemake"), 0)):
        done = called(*words)
        assert (done[0], str(damaged) in done[2]) == (status, words != ("outdated", "Demo"))
    assert root.is_dir()


@pytest.mark.usefixtures("root")
def test_links_profile_and_test_are_made(tmp_path: Path) -> None:
    assert called("workflows", "nextflow", tmp_path / "n")[:2] == (0, f"1 link in {tmp_path / 'n'}\n")
    link = tmp_path / "n/127.0.0.1-9-a-b-1.img"
    assert link.exists()
    link.unlink()
    link.touch()
    assert (called("workflows", "nextflow", tmp_path / "n")[0], link.is_symlink()) == (20, False)
    assert "modules=" in called("workflows", "snakemake")[1]
    assert "Demo/1" in called("workflows", "reframe")[1]
