"""What `sifmod list` answers besides what is installed: options, output and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sifmod.cli import cli
from sifmod.eb.space import software_space
from sifmod.install.manifest import read_manifest

from ..support import a_runner, make_installation
from ..upkeep.test_findings import GRYPE


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EASYBUILD_PREFIX", str(tmp_path / "eb"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("SIFMOD_INSECURE_REGISTRIES", "127.0.0.1:9")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("CONTAINERROOT", "MODULEPATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "eb").mkdir()
    return make_installation(software_space(), "Demo/1", image_origin="docker://127.0.0.1:9/a/b:1")


def called(*words: object) -> tuple[int, str, str]:
    result = a_runner().invoke(cli, ["list", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--outdated --snakemake", "--outdated is a question of its own"),
        ("--reframe --fast", "--reframe is a question of its own"),
        ("--findings", "--findings needs reports of scanners"),
        ("report.json", "reports and --advisories are for --findings"),
        ("--advisories x.toml", "reports and --advisories are for --findings"),
    ],
)
@pytest.mark.usefixtures("root")
def test_a_question_is_asked_alone(words: str, said: str) -> None:
    status, _out, err = called(*words.split())
    assert (status, said in err) == (2, True)


@pytest.mark.usefixtures("root")
def test_a_registry_that_is_away_is_named_and_not_fatal() -> None:
    status, out, err = called("--outdated")
    assert (status, out.splitlines()[-1]) == (0, "0 of 1 module outdated")
    assert "note: Demo/1: the registry 127.0.0.1:9 can't be reached from here" in err
    (one,) = json.loads(called("--outdated", "--json")[1])
    assert (one["module"], one["moved"], one["newer"]) == ("Demo/1", False, [])


def test_findings_are_shown_and_become_advisories_that_show_tells(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = read_manifest(root)
    assert manifest
    report, other = tmp_path / f"{manifest.image_sha256}.json", tmp_path / "other.json"
    for path in (report, other):
        path.write_text(json.dumps(GRYPE))
    toml = tmp_path / "findings.toml"
    status, out, err = called("--findings", report, other, "--advisories", toml)
    assert status == 20
    row = ["Demo/1", "1 critical, 1 negligible", "1 of 2", "CVE-2026-1 in openssl 3.0.1, fixed in 3.0.2"]
    assert out.splitlines()[1].split("  ") == row
    assert f"note: '{other}' is left out, because it names the image of no module: type MODULE={other}" in err
    monkeypatch.setenv("SIFMOD_ADVISORIES", str(toml))
    shown = a_runner().invoke(cli, ["show", "Demo/1"]).output
    assert "grype knew of holes in this image on 2023-11-14: 1 critical, 1 negligible" in shown
    (one,) = json.loads(called("--findings", f"Demo/1={other}", "--json")[1])
    assert one["counts"] == {"critical": 1, "negligible": 1}


@pytest.mark.usefixtures("root")
def test_what_no_scanner_has_looked_at_is_not_taken_for_safe(tmp_path: Path) -> None:
    make_installation(software_space(), "Demo/2", image_sha256="2" * 64)
    (report := tmp_path / "x.json").write_text(json.dumps(GRYPE))
    status, _out, err = called("--findings", f"Demo/1={report}")
    assert (status, err) == (20, "note: no report is on Demo/2\n")
    (tmp_path / "none").mkdir()
    result = a_runner().invoke(cli, ["list", "--findings", str(tmp_path / "none")])
    assert "there is no report in" in str(result.exception)


@pytest.mark.usefixtures("root")
def test_a_report_that_is_none_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("<html>")
    words = ["--findings", str(tmp_path / "x.json"), "--advisories", str(tmp_path / "a.toml")]
    result = a_runner().invoke(cli, ["list", *words])
    assert (result.output, (tmp_path / "a.toml").exists()) == ("", False)
    assert "is not JSON, it begins with '<html>'" in str(result.exception)


@pytest.mark.usefixtures("root")
def test_advisories_that_somebody_has_written_are_not_replaced(tmp_path: Path) -> None:
    own, made, report = tmp_path / "own.toml", tmp_path / "made.toml", tmp_path / "x.json"
    own.write_text("[[advisory]]\n")
    report.write_text(json.dumps(GRYPE))
    words = ["--findings", f"Demo/1={report}", "--advisories"]
    result = a_runner().invoke(cli, ["list", *words, str(own)])
    assert (result.output, own.read_text()) == ("", "[[advisory]]\n")
    assert "has advisories that sifmod list --findings did not write" in str(result.exception)
    assert [called(*words, made)[0] for _time in range(2)] == [20, 20]


@pytest.mark.usefixtures("root")
def test_links_profile_and_test_are_made(tmp_path: Path) -> None:
    assert called("--nextflow", tmp_path / "n")[:2] == (0, f"1 link in {tmp_path / 'n'}\n")
    assert (tmp_path / "n/127.0.0.1-9-a-b-1.img").exists()
    assert "modules=" in called("--snakemake")[1]
    assert "Demo/1" in called("--reframe")[1]
