"""Reports of scanners: what is read of them, on which module they are, and what is refused."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from sifmod.eb.space import SoftwareSpace
from sifmod.errors import SifmodError
from sifmod.installed.installation import Installation, find_installations
from sifmod.site.advisories import load_advisories
from sifmod.upkeep.findings import Findings, advisories_text, findings_of, read_reports, report_files

from ..support import a_site, make_installation

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GRYPE = {
    "matches": [
        {
            "vulnerability": {
                "id": "CVE-2026-1",
                "severity": "Critical",
                "fix": {"versions": ["3.0.2"], "state": "fixed"},
            },
            "relatedVulnerabilities": [{"id": "GHSA-aaaa-bbbb-cccc"}],
            "artifact": {"name": "openssl", "version": "3.0.1", "type": "deb"},
        },
        {
            "vulnerability": {
                "id": "CVE-2026-2",
                "severity": "Negligible",
                "fix": {"versions": [], "state": "wont-fix"},
            },
            "artifact": {"name": "bash", "version": "5.2"},
        },
    ],
    "source": {"type": "image", "target": {"userInput": "demo.sif", "manifestDigest": "", "repoDigests": []}},
    "descriptor": {"name": "grype", "version": "0.100.0"},
}
TRIVY = {
    "SchemaVersion": 2,
    "ArtifactName": "x.cdx.json",
    "Results": [
        {
            "Target": "x",
            "Vulnerabilities": [
                {
                    "VulnerabilityID": "GHSA-aaaa-bbbb-cccc",
                    "PkgName": "openssl",
                    "InstalledVersion": "3.0.1",
                    "Severity": "HIGH",
                },
                {"VulnerabilityID": "CVE-2026-3", "PkgName": "zlib", "InstalledVersion": "1", "Severity": "UNKNOWN"},
            ],
        },
        {"Target": "y"},
    ],
}
# As pip-audit 2.10 has written it for a file with `jinja2==3.1.0`.
PIP_AUDIT = {
    "dependencies": [
        {
            "name": "jinja2",
            "version": "3.1.0",
            "vulns": [
                {
                    "id": "PYSEC-2026-1",
                    "fix_versions": ["3.1.3", "3.1.4"],
                    "aliases": ["CVE-2026-4"],
                    "description": "x",
                }
            ],
        },
        {"name": "local", "skip_reason": "not on PyPI"},
    ],
    "fixes": [],
}


OPENSSL = "pkg:deb/debian/openssl@3.0.1?arch=amd64"


def vex(
    item: Installation, state: str, identifier: str = "CVE-2026-1", part: str = OPENSSL, *versions: dict[str, str]
) -> dict[str, Any]:
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{item.manifest.image_sha256}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "vulnerabilities": [
            {
                "id": identifier,
                "ratings": [{"severity": "low"}, {"severity": "high"}],
                "analysis": {"state": state},
                "affects": [{"ref": f"urn:cdx:{serial}/1#{part}", "versions": list(versions)}],
            }
        ],
    }


@pytest.fixture
def item(tmp_path: Path) -> Installation:
    space = SoftwareSpace(software=tmp_path / "software", modules=tmp_path / "modules")
    make_installation(space, "Demo/1")
    return find_installations(space).installations[0]


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def found(item: Installation, *paths: Path) -> Findings:
    (one,), strangers = findings_of([item], [report for path in paths for report in read_reports(path)])
    assert strangers == []
    return one


def test_the_name_of_a_file_says_on_which_image_it_is_and_two_scanners_count_once(
    item: Installation, tmp_path: Path
) -> None:
    key = item.manifest.image_sha256
    one = found(item, write(tmp_path, f"{key}.grype.json", GRYPE), write(tmp_path, f"trivy-{key}.json", TRIVY))
    assert one.counts == {"critical": 1, "negligible": 1, "unknown": 1}
    assert (one.counts_text, one.tools) == ("1 critical, 1 negligible, 1 unknown", ("grype", "trivy"))
    assert one.found[0].text == "CVE-2026-1 in openssl 3.0.1, fixed in 3.0.2"
    assert [vulnerability.identifier for vulnerability in one.fixed] == ["CVE-2026-1"]


@pytest.mark.parametrize("place", ["trivy", "grype", "digest"])
def test_a_report_itself_may_name_the_image(item: Installation, tmp_path: Path, place: str) -> None:
    key = item.manifest.image_sha256
    reports: dict[str, Any] = {
        "trivy": {**TRIVY, "ArtifactName": f"/sboms/{key}.cdx.json"},
        "grype": {**GRYPE, "source": {"type": "file", "target": f"/sboms/{key}.cdx.json"}},
        "digest": {**GRYPE, "source": {"type": "image", "target": {"repoDigests": [f"example.org/a@sha256:{key}"]}}},
    }
    assert found(item, write(tmp_path, "report.json", reports[place])).counts


def test_pip_audit_names_no_image_so_the_user_does(item: Installation, tmp_path: Path) -> None:
    path = write(tmp_path, "audit.json", PIP_AUDIT)
    (((module, same),), none) = report_files([f"Demo/1={path}"]), findings_of([item], read_reports(path))
    assert (none[0], len(none[1])) == ([], 1)
    (one,), _strangers = findings_of([item], read_reports(same, module=module))
    assert (one.counts, one.found[0].fixed, one.is_grave) == ({"unknown": 1}, "3.1.3, 3.1.4", False)


def test_a_vex_dismisses_what_others_report_and_reports_what_it_does_not(item: Installation, tmp_path: Path) -> None:
    grype = write(tmp_path, f"{item.manifest.image_sha256}.json", GRYPE)
    one = found(item, grype, write(tmp_path, "vex.json", vex(item, "not_affected")))
    assert (one.counts, one.dismissed) == ({"negligible": 1}, 1)
    fixed = ({"version": "3.0.9", "status": "unaffected"}, {"range": "vers:deb/>=4", "status": "unaffected"})
    other = found(item, write(tmp_path, "vex2.json", vex(item, "exploitable", "CVE-2026-9", OPENSSL, *fixed)))
    assert other.found[0].text == "CVE-2026-9 in openssl 3.0.1, fixed in 3.0.9"
    assert other.counts == {"high": 1}


@pytest.mark.parametrize(
    ("part", "versions", "is_dismissed"),
    [
        ("", [], True),
        ("image", [], True),
        ("pkg:deb/debian/OpenSSL@1%3A3.0.1", [], True),
        ("pkg:deb/debian/openssl@3.0.0", [], False),
        ("pkg:deb/debian/openssl", [{"version": "3.0.1"}], True),
        # these say nothing of what is installed
        ("pkg:deb/debian/openssl", [{"version": "3.0.0"}], False),
        ("pkg:deb/debian/openssl", [{"range": "vers:deb/<3"}], False),
        ("pkg:deb/debian/bash@5.2", [], False),
        ("product-of-somebody", [], False),
    ],
)
def test_what_a_vex_does_not_name_is_not_dismissed(
    item: Installation, tmp_path: Path, part: str, versions: list[dict[str, str]], is_dismissed: bool
) -> None:
    grype = write(tmp_path, f"{item.manifest.image_sha256}.json", GRYPE)
    one = found(item, grype, write(tmp_path, "vex.json", vex(item, "not_affected", "CVE-2026-1", part, *versions)))
    assert one.dismissed == int(is_dismissed)


def test_a_vex_on_several_images_dismisses_in_each_what_it_says_of_it(tmp_path: Path) -> None:
    space = SoftwareSpace(software=tmp_path / "software", modules=tmp_path / "modules")
    for number in "12":
        make_installation(space, f"Demo/{number}", image_sha256=number * 64)
    one, two = find_installations(space).installations
    whole = vex(one, "not_affected")
    whole["vulnerabilities"] += vex(two, "not_affected", "CVE-2026-2", "pkg:deb/debian/bash@5.2")["vulnerabilities"]
    paths = [write(tmp_path, f"{number * 64}.json", GRYPE) for number in "12"]
    reports = [report for path in (*paths, write(tmp_path, "vex.json", whole)) for report in read_reports(path)]
    findings, strangers = findings_of([one, two], reports)
    assert [one.counts for one in findings] == [{"negligible": 1}, {"critical": 1}]
    # one image of it is enough to know the file
    assert (strangers, findings_of([one], reports[2:])[1]) == ([], [])
    assert [report.path.name for report in findings_of([], reports[2:])[1]] == ["vex.json"]


def test_an_advisory_of_a_distribution_is_no_name_of_one_hole(item: Installation, tmp_path: Path) -> None:
    trivy = json.loads(json.dumps(TRIVY))
    for number, one in enumerate(trivy["Results"][0]["Vulnerabilities"]):
        one.update({"VulnerabilityID": f"CVE-2026-{number}", "PkgName": "openssl", "VendorIDs": ["DSA-1-1"]})
    assert len(found(item, write(tmp_path, f"{item.manifest.image_sha256}.json", trivy)).found) == 2


def test_a_folder_is_read_without_the_bills_of_materials(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    write(folder, "x.cdx.json", {})
    path = write(folder, "a.json", GRYPE)
    assert report_files([str(folder)]) == [("", path)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<html><body>\x1b[31mNot found</body>", r"is not JSON, it begins with '<html><body>"),
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"runs": []}', "is JSON of another program: give the output of grype -o json"),
        ("[]", "is JSON of another program"),
        ('{"SchemaVersion": 3, "Results": []}', "one of trivy, but not of a version that is known here"),
        ('{"matches": [{"vulnerability": 7}]}', "one of grype, but not of a version"),
        ('{"bomFormat": "CycloneDX", "specVersion": "9.0"}', "its specVersion is '9.0', and 1.4 to 1.7 are known"),
        (
            '{"dependencies": [{"name": "a", "vulns": [{"id": ["x"], "fix_versions": []}]}]}',
            "one of pip-audit, but not",
        ),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(SifmodError, match=said):
        read_reports(path)


def test_a_file_without_end_or_of_100_mb_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as stream:
        stream.truncate(100 << 20)
    begun = time.monotonic()
    for one in (path, Path("/dev/zero"), tmp_path, tmp_path / "gone"):
        with pytest.raises(SifmodError, match="can't be read"):
            read_reports(one)
    assert time.monotonic() - begun < 60


def test_what_controls_a_terminal_is_text(item: Installation, tmp_path: Path) -> None:
    evil = json.loads(json.dumps(GRYPE).replace("openssl", "\\u001b]0;x\\u0007\\nssl" + "y" * 1000))
    one = found(item, write(tmp_path, f"{item.manifest.image_sha256}.json", evil))
    assert "\x1b" not in one.found[0].text
    assert "\n" not in one.found[0].text
    assert len(one.found[0].package) == 200


def test_the_advisories_are_of_the_site_and_match_the_image(item: Installation, tmp_path: Path) -> None:
    evil = json.loads(json.dumps(GRYPE).replace("openssl", "open{%s}\\\\ssl"))
    one = found(item, write(tmp_path, f"{item.manifest.image_sha256}.json", evil))
    path = tmp_path / "advisories.toml"
    path.write_text(advisories_text([one, one], "2026-11-26"))
    (entry,) = tomllib.loads(path.read_text())["advisory"]
    assert entry["match"] == {"digests": [f"sha256:{item.manifest.image_sha256}"]}
    (advisory,) = [one for one in load_advisories(a_site(advisories=(str(path),))) if one.identifier == entry["id"]]
    assert (advisory.severity, advisory.sources) == ("problem", ("https://osv.dev/vulnerability/CVE-2026-1",))
    assert advisory.text == (
        "grype knew of holes in this image on 2026-11-26: 1 critical, 1 negligible, such as CVE-2026-1 in open__s__ssl "
        "3.0.1, fixed in 3.0.2."
    )
