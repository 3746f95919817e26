"""What scanners say of installed images: reports of grype, trivy and pip-audit, and VEX documents of CycloneDX."""

from __future__ import annotations

import json
import re
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from sifmod.errors import SifmodError, os_errors
from sifmod.finding import NOTE, PROBLEM, WARNING
from sifmod.host.files import content_of
from sifmod.installed.installation import Installation
from sifmod.text.digest import SHA256
from sifmod.text.printable import one_line, shortened
from sifmod.upkeep.boms import key_of

# The worst first. What the programs call otherwise is `unknown`.
SEVERITIES = ("critical", "high", "medium", "low", "negligible", "unknown")
_ALSO = {"info": "negligible", "none": "negligible"}
# States of an analysis in a VEX (CycloneDX, `impactAnalysisState`) of what needs no action.
_DISMISSED = frozenset({"not_affected", "false_positive", "resolved", "resolved_with_pedigree"})
_LARGEST = 64 << 20  # bytes of a report
_MOST = 100_000  # vulnerabilities in a report
_LONGEST = 200  # characters of a name, a version or an identifier
# Identifiers of one hole each; that of a distribution's advisory, such as DSA or RHSA, stands for several.
_OF_ONE = re.compile(r"(CVE|GHSA|PYSEC)-")
_PACKAGE_URL = re.compile(r"pkg:[a-z0-9.+-]+/(?:[^@?#]*/)?([^/@?#]+)(?:@([^?#]*))?")
_IDENTITY = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}|id-[0-9a-f]{32})(?![0-9a-f])")
_SERIAL = re.compile(r"urn:(?:uuid|cdx):([0-9a-f-]{36})")
# Pages on them are at https://osv.dev/vulnerability/ID.
_KNOWN = re.compile(r"(CVE|GHSA|PYSEC|DSA|DLA|USN|RHSA|ALPINE)-[A-Za-z0-9-]{1,60}")
# The first line of a file of advisories, by which it is known that it may be replaced.
_WRITTEN = "# Written by sifmod list --findings."
_HOW = "give the output of grype -o json, trivy --format json or pip-audit --format json, or a VEX of CycloneDX in JSON"


@dataclass(frozen=True)
class Vulnerability:
    """A known hole in a package."""

    identifier: str
    package: str
    version: str  # the version of the package in the image; empty if the report does not say so
    severity: str  # one of `SEVERITIES`
    fixed: str = ""  # a version without the hole; empty if none is known
    aliases: tuple[str, ...] = ()  # its other identifiers

    @property
    def text(self) -> str:
        """The hole on one line."""
        fixed = f", fixed in {self.fixed}" if self.fixed else ""
        return f"{self.identifier} in {f'{self.package} {self.version}'.strip()}{fixed}"


@dataclass(frozen=True)
class Report:
    """The report of a scanner on one image."""

    path: Path
    tool: str
    module: str  # the module that the user named; empty if the report itself names the image
    said: tuple[str, ...]  # texts of the report that may identify the image
    found: tuple[Vulnerability, ...]
    # identifier, package in its canonical form, or '' for any, and its version without epoch, or '' for any
    dismissed: frozenset[tuple[str, str, str]] = frozenset()


@dataclass(frozen=True)
class Findings:
    """What reports say of the image of a module."""

    module: str
    key: str  # what identifies the image, see `key_of`
    image: str  # its file name
    tools: tuple[str, ...]
    found: tuple[Vulnerability, ...]  # the worst first
    dismissed: int = 0  # how many a VEX has dismissed

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there are of each severity, the worst first, without zeros."""
        counts = {one: sum(item.severity == one for item in self.found) for one in SEVERITIES}
        return {severity: count for severity, count in counts.items() if count}

    @property
    def is_grave(self) -> bool:
        """Whether one is critical or high."""
        return not self.counts.keys().isdisjoint(SEVERITIES[:2])

    @property
    def counts_text(self) -> str:
        """The counts on one line."""
        return ", ".join(f"{count} {severity}" for severity, count in self.counts.items()) or "none"

    @property
    def fixed(self) -> tuple[Vulnerability, ...]:
        """Those for which a fixed version is known."""
        return tuple(one for one in self.found if one.fixed)


def report_files(words: Sequence[str]) -> list[tuple[str, Path]]:
    """Return the files that a user has named, each with its module: `FILE`, `MODULE=FILE`, or a folder of `*.json`.

    Bills of materials, which may lie in the same folder, are left out.
    """
    found: list[tuple[str, Path]] = []
    for word in words:
        module, equals, rest = word.partition("=")
        path = Path(word)
        if equals and not path.exists():
            found.append((module, Path(rest)))
        elif path.is_dir():
            found += [("", one) for one in sorted(path.glob("*.json")) if not one.name.endswith(".cdx.json")]
        else:
            found.append(("", path))
    return found


def read_reports(path: Path, *, module: str = "") -> list[Report]:
    """Return the reports in a file: a VEX may be on several images, another one is on one.

    Raises:
        SifmodError: it can't be read, is too large, or is of no program that is known here.
    """
    with os_errors(SifmodError, f"the report '{path}' can't be read"):
        content = content_of(path, most=_LARGEST)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        begin = content[:20].decode(errors="replace").strip()
        raise SifmodError(f"the report '{path}' is not JSON, it begins with {begin!r}: {_HOW}") from error
    tool, read = next(
        ((name, read) for name, is_of, read in _FORMATS if isinstance(data, dict) and is_of(data)), ("", None)
    )
    if read is None:
        raise SifmodError(f"the report '{path}' is JSON of another program: {_HOW}")
    try:
        reports = read(path, data)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise SifmodError(
            f"the report '{path}' looks like one of {tool}, but not of a version that is known here "
            f"({type(error).__name__}: {shortened(one_line(str(error)), _LONGEST)}): {_HOW}"
        ) from error
    count = sum(len(report.found) for report in reports)
    if count > _MOST:
        raise SifmodError(f"the report '{path}' has {count} vulnerabilities: more than {_MOST} are not read")
    return [replace(report, module=module, said=(path.name, *report.said)) for report in reports]


def findings_of(items: Sequence[Installation], reports: Sequence[Report]) -> tuple[list[Findings], list[Report]]:
    """Return what reports say of modules, for those with a report, and one of each file that is on none of them."""
    by_item: dict[int, list[Report]] = {}
    strangers: dict[tuple[str, Path], Report] = {}
    known = set()
    for report in reports:
        numbers = [number for number, item in enumerate(items) if _is_about(report, item)]
        if numbers:
            known.add((report.module, report.path))
        strangers.setdefault((report.module, report.path), report)
        for number in numbers:
            by_item.setdefault(number, []).append(report)
    found = [_merged(items[number], by_item[number]) for number in sorted(by_item)]
    return found, [report for key, report in strangers.items() if key not in known]


def check_replaceable(path: Path) -> None:
    """Refuse to replace a file of advisories that somebody has written; SifmodError."""
    try:
        content = content_of(path, most=_LARGEST)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SifmodError(f"'{path}' can't be replaced: {error.strerror}") from error
    if not content.startswith(f"{_WRITTEN}\n".encode()):
        raise SifmodError(f"'{path}' has advisories that sifmod list --findings did not write: name another file")


def advisories_text(findings: Iterable[Findings], day: str) -> str:
    """Return a file of advisories of a site in TOML, one for each image, which `show`, the catalogue and modules tell.

    The critical ones are shown at load. The day is when the reports were read, as `2026-01-31`.
    """
    import tomli_w  # most verbs don't need it

    entries = {}
    for one in findings:
        if not one.found:
            continue
        identifier = f"findings-{(one.key or str(uuid.uuid5(uuid.NAMESPACE_URL, one.image)))[:15].rstrip('-')}"
        severity = PROBLEM if "critical" in one.counts else WARNING if one.is_grave else NOTE
        worst = one.found[0]
        page = next((name for name in (worst.identifier, *worst.aliases) if _KNOWN.fullmatch(name)), "")
        known = (
            f"Fixed versions are known for {len(one.fixed)} of them, such as {one.fixed[0].text}." if one.fixed else ""
        )
        remedy = known or "No fixed version is known."
        entries[identifier] = {
            "id": identifier,
            "severity": severity,
            "text": _sentence(
                f"{' and '.join(one.tools)} knew of holes in this image on {day}: {one.counts_text}, "
                f"such as {worst.text}."
            ),
            "remedy": _sentence(f"{remedy} Use a newer module where there is one."),
            "source": f"https://osv.dev/vulnerability/{page}" if page else "https://osv.dev/",
            "match": {"digests": [f"sha256:{one.key}"]} if SHA256.fullmatch(one.key) else {"images": [one.image]},
        }
    return f"{_WRITTEN}\n\n" + tomli_w.dumps({"advisory": list(entries.values())})


def _sentence(text: str) -> str:
    """Return text without what advisories can't have."""
    return re.sub(r"[\[\]{}\\%]", "_", one_line(text))


def _is_about(report: Report, item: Installation) -> bool:
    if report.module:
        return item.answers_to(report.module)
    manifest = item.manifest
    known = {key_of(item), manifest.image_sha256, manifest.image_digest.rpartition(":")[2]} - {""}
    serial = str(uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{manifest.image_sha256}")) if manifest.image_sha256 else ""
    for text in report.said:
        if known & set(_IDENTITY.findall(text)) or (serial and serial in _SERIAL.findall(text)):
            return True
        if manifest.image_origin and text == manifest.image_origin.partition("://")[2]:
            return True
    return False


def _merged(item: Installation, reports: Sequence[Report]) -> Findings:
    """Return what the reports say together: a hole that two of them name counts once, and a dismissed one does not."""
    dismissed = frozenset().union(*(report.dismissed for report in reports))
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    found: dict[tuple[str, str], Vulnerability] = {}
    out = set()
    for one in (one for report in reports for one in report.found):
        named = (one.identifier, *one.aliases)
        plain = canonicalize_name(one.package)
        parts = {("", ""), (plain, ""), (plain, _number(one.version))}
        if any((name, *part) in dismissed for name in named for part in parts):
            out.add((one.identifier, one.package))
            continue
        keys = [(name, plain) for name in named]
        key = next((seen[key] for key in keys if key in seen), keys[0])
        seen.update(dict.fromkeys(keys, key))
        before = found.get(key, one)
        severity = min(before.severity, one.severity, key=SEVERITIES.index)
        found[key] = replace(before, severity=severity, fixed=before.fixed or one.fixed)
    order = sorted(found.values(), key=lambda one: (SEVERITIES.index(one.severity), one.package, one.identifier))
    tools = tuple(dict.fromkeys(report.tool for report in reports if report.found or not report.dismissed))
    return Findings(item.module, key_of(item), item.manifest.image, tools or ("VEX",), tuple(order), len(out))


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return shortened(one_line(value.strip()), _LONGEST)


def _severity(value: Any) -> str:
    text = str(value).lower()[:_LONGEST]
    return text if text in SEVERITIES else _ALSO.get(text, "unknown")


def _number(version: str) -> str:
    """Return a version without its epoch, which package URLs of RPM have elsewhere."""
    return re.sub(r"^[0-9]+:", "", version)


def _aliases(identifier: str, values: Iterable[Any]) -> tuple[str, ...]:
    """Return the other identifiers of one hole; none of what stands for several."""
    return tuple(one for one in _texts(values) if _OF_ONE.match(one)) if _OF_ONE.match(identifier) else ()


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(_word(one) for one in values if isinstance(one, str) and one)


def _of_grype(path: Path, data: dict[str, Any]) -> list[Report]:
    """Read `grype -o json` (anchore/grype, grype/presenter/models/document.go)."""
    found = []
    for match in data["matches"]:
        about, artifact = match["vulnerability"], match["artifact"]
        fix = about.get("fix") or {}
        found.append(
            Vulnerability(
                identifier=_word(about["id"]),
                package=_word(artifact["name"]),
                version=_word(artifact.get("version", "")),
                severity=_severity(about.get("severity")),
                fixed=", ".join(_texts(fix.get("versions") or ())),
                aliases=_aliases(about["id"], (one.get("id") for one in match.get("relatedVulnerabilities") or ())),
            )
        )
    target = (data.get("source") or {}).get("target")
    if isinstance(target, dict):
        digests = [target.get("userInput"), target.get("manifestDigest"), *(target.get("repoDigests") or ())]
    else:
        digests = [target]
    return [Report(path, "grype", "", _texts(digests), tuple(found))]


def _of_trivy(path: Path, data: dict[str, Any]) -> list[Report]:
    """Read `trivy --format json` (aquasecurity/trivy, pkg/types/report.go)."""
    if data["SchemaVersion"] != 2:
        raise ValueError(f"its SchemaVersion is {data['SchemaVersion']!r}, and 2 is known")
    found = [
        Vulnerability(
            identifier=_word(one["VulnerabilityID"]),
            package=_word(one["PkgName"]),
            version=_word(one.get("InstalledVersion", "")),
            severity=_severity(one.get("Severity")),
            fixed=_word(one.get("FixedVersion", "")),
            aliases=_aliases(one["VulnerabilityID"], one.get("VendorIDs") or ()),
        )
        for result in data.get("Results") or ()
        for one in result.get("Vulnerabilities") or ()
    ]
    about = data.get("Metadata") or {}
    said = [data.get("ArtifactName"), *(about.get("RepoDigests") or ()), *(about.get("RepoTags") or ())]
    return [Report(path, "trivy", "", _texts(said), tuple(found))]


def _of_pip_audit(path: Path, data: dict[str, Any]) -> list[Report]:
    """Read `pip-audit --format json` (pypa/pip-audit, README): it knows no severities, and not what was audited."""
    found = [
        Vulnerability(
            identifier=_word(one["id"]),
            package=_word(package["name"]),
            version=_word(package.get("version", "")),
            severity="unknown",
            fixed=", ".join(_texts(one["fix_versions"])),
            aliases=_aliases(one["id"], one.get("aliases") or ()),
        )
        for package in data["dependencies"]
        for one in package.get("vulns") or ()
    ]
    return [Report(path, "pip-audit", "", (), tuple(found))]


def _of_cyclonedx(path: Path, data: dict[str, Any]) -> list[Report]:
    """Read a VEX, or an SBOM with vulnerabilities (CycloneDX 1.4 to 1.7, `vulnerabilities`).

    There is a report for each bill of materials that it links to, and one for what it says of no other.
    """
    if not re.fullmatch(r"1\.[4-7]", str(data.get("specVersion"))):
        raise ValueError(f"its specVersion is {data.get('specVersion')!r}, and 1.4 to 1.7 are known")
    image = (data.get("metadata") or {}).get("component") or {}
    parts = {str(one.get("bom-ref")): one for one in data.get("components") or () if isinstance(one, dict)}
    wholes = ("", "image", str(image.get("bom-ref", "")))  # the second is that in the bills of sifmod
    found: dict[str, list[Vulnerability]] = {}
    dismissed: dict[str, set[tuple[str, str, str]]] = {}
    for one in data.get("vulnerabilities") or ():
        identifier = _word(one["id"])
        severities = [_severity(rating.get("severity")) for rating in one.get("ratings") or ()]
        severity = min(severities, key=SEVERITIES.index, default="unknown")
        is_dismissed = (one.get("analysis") or {}).get("state") in _DISMISSED
        for affected in one.get("affects") or [{"ref": ""}]:
            link, reference = _taken_apart(str(affected["ref"]))
            package, version = _package_of(reference, parts)
            versions = affected.get("versions") or ()
            of_this = found.setdefault(link, [])
            if not is_dismissed:
                whole = [item.get("version") for item in versions if item.get("status") == "unaffected"]
                fixed = ", ".join(_texts(whole))
                of_this.append(Vulnerability(identifier, package, version, severity, fixed))
            elif package or reference in wholes:  # what is not known here may be anything
                # of a range it is not known whether the installed version is in it
                these = _texts(item.get("version") for item in versions) if versions else (version,)
                dismissed.setdefault(link, set()).update(
                    (identifier, canonicalize_name(package), _number(text)) for text in these
                )
    own = [str(data.get("serialNumber", "")), *(str(one.get("content", "")) for one in image.get("hashes") or ())]
    return [
        Report(
            path,
            "CycloneDX",
            "",
            (link,) if link else tuple(own),
            tuple(found.get(link, ())),
            frozenset(dismissed.get(link, ())),
        )
        for link in dict.fromkeys(("", *found))
    ]


def _taken_apart(reference: str) -> tuple[str, str]:
    """Return the bill of materials that a VEX refers to, as `urn:cdx:...`, and the part of it; empty for its own."""
    link, _hash, part = reference.partition("#")
    return (link, part) if link.startswith("urn:cdx:") else ("", reference)


def _package_of(reference: str, parts: Mapping[str, Any]) -> tuple[str, str]:
    """Return name and version of the package that a VEX refers to; empty if it is the image or is not known."""
    part = parts.get(reference) or parts.get(urllib.parse.unquote(reference))
    if part:
        return _word(part["name"]), _word(part.get("version", ""))
    match = _PACKAGE_URL.match(reference) or _PACKAGE_URL.match(urllib.parse.unquote(reference))
    return (_word(urllib.parse.unquote(match[1])), _word(urllib.parse.unquote(match[2] or ""))) if match else ("", "")


# The name of a format, whether a document has it, and what reads it.
_FORMATS: tuple[tuple[str, Callable[[dict[str, Any]], bool], Callable[[Path, dict[str, Any]], list[Report]]], ...] = (
    ("grype", lambda data: isinstance(data.get("matches"), list), _of_grype),
    ("trivy", lambda data: "SchemaVersion" in data, _of_trivy),
    ("CycloneDX", lambda data: data.get("bomFormat") == "CycloneDX", _of_cyclonedx),
    ("pip-audit", lambda data: isinstance(data.get("dependencies"), list), _of_pip_audit),
)
