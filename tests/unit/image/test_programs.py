"""The programs that an image is for, from the databases of its package managers."""

import contextlib
import json
import sqlite3
import struct
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sifmod.errors import ImageError
from sifmod.image import programs as subject
from sifmod.image import rpm
from sifmod.image.files import SandboxFiles
from sifmod.image.programs import Programs, find_programs

from ..imagetrees import link, write
from ..rpmdatabases import rpm_database, rpm_header

INSTALLED = "Status: install ok installed\nArchitecture: amd64\n"


def program(top: Path, path: str) -> None:
    write(top, path).chmod(0o755)


def conda_package(top: Path, name: str, version: str, *, prefix: str = "/usr/local", **note: Any) -> None:
    text = json.dumps({"name": name, "version": version, **note})
    write(top, f"{prefix}/conda-meta/{name}-{version}-h1_0.json", text)


def debian_package(top: Path, name: str, version: str, *paths: str, fields: str = "") -> None:
    status = top / "var/lib/dpkg/status"
    before = status.read_text() if status.exists() else ""
    write(top, "/var/lib/dpkg/status", f"{before}Package: {name}\n{INSTALLED}Version: {version}\n{fields}\n")
    write(top, f"/var/lib/dpkg/info/{name}.list", "\n".join(["/.", "/usr", *paths, ""]))
    for path in paths:
        program(top, path)


def found_in(top: Path) -> Programs:
    return find_programs(SandboxFiles(top))


def names_of(found: Programs) -> dict[str, list[str]]:
    return {one.name: [command.name for command in one.commands] for one in found.packages}


def test_a_biocontainer_names_what_was_asked_for(tmp_path: Path) -> None:
    program(tmp_path, "/usr/local/bin/samtools")
    program(tmp_path, "/usr/local/bin/bgzip")
    write(tmp_path, "/usr/local/bin/notes.txt")
    files = ["bin/samtools", "bin/notes.txt", "bin/gone", "share/x", "bin/../../etc/passwd", 7]
    channel = "https://conda.anaconda.org/bioconda/linux-64"
    conda_package(tmp_path, "samtools", "1.9", files=files, depends=["htslib >=1.9"], channel=channel)
    conda_package(tmp_path, "htslib", "1.9", files=["bin/bgzip"])
    spec = '# update specs: ["bioconda::samtools=1.9"]'
    write(tmp_path, "/usr/local/conda-meta/history", f"==> 2019-01-01 <==\n{spec}\n")
    found = found_in(tmp_path)
    (package,) = found.packages
    assert (package.name, package.version, package.origin, package.manager) == ("samtools", "1.9", "bioconda", "conda")
    assert [(one.name, one.path) for one in package.commands] == [("samtools", "/usr/local/bin/samtools")]
    assert found.is_biocontainer


@pytest.mark.parametrize("spec", ["samtools 1.9", ""])
def test_without_a_history_the_spec_or_else_the_root_of_all_packages_tells(tmp_path: Path, spec: str) -> None:
    for name in ("samtools", "bgzip"):
        program(tmp_path, f"/usr/local/bin/{name}")
    conda_package(tmp_path, "samtools", "1.9", files=["bin/samtools"], depends=["htslib >=1.9,<2"], requested_spec=spec)
    conda_package(tmp_path, "htslib", "1.9", files=["bin/bgzip"])
    assert names_of(found_in(tmp_path)) == {"samtools": ["samtools"]}


def test_conda_elsewhere_counts_if_it_is_in_path(tmp_path: Path) -> None:
    program(tmp_path, "/opt/conda/bin/gmx")
    conda_package(tmp_path, "gromacs", "2024.1", prefix="/opt/conda", files=["bin/gmx"])
    assert not found_in(tmp_path).packages
    write(tmp_path, "/.singularity.d/env/90-environment.sh", "export PATH=/opt/conda/bin:$PATH\n")
    found = found_in(tmp_path)
    assert (names_of(found), found.is_biocontainer) == ({"gromacs": ["gmx"]}, False)


def test_debian_s_package_that_was_installed_by_hand(top: Path) -> None:
    debian_package(top, "bash", "5", "/usr/bin/bash", fields="Essential: yes\nPriority: required\n")
    debian_package(top, "libhts3", "1.16", "/usr/bin/helper", fields="Section: libs\n")
    more = "Section: universe/science\nHomepage: https://www.htslib.org/\nDescription: alignments\n of sequences\n"
    debian_package(top, "samtools", "1:1.16.1+dfsg-1+b2", "/usr/bin/samtools", "/usr/share/x", fields=more)
    write(top, "/var/lib/apt/extended_states", "Package: libhts3\nArchitecture: amd64\nAuto-Installed: 1\n\n")
    (package,) = found_in(top).packages
    assert (package.name, package.version) == ("samtools", "1.16.1")
    assert (package.summary, package.homepage) == ("alignments", "https://www.htslib.org/")
    assert [one.name for one in package.commands] == ["samtools"]


def test_without_apt_s_notes_a_package_that_no_other_one_needs(top: Path) -> None:
    debian_package(
        top, "bwa", "0.7.17-7", "/bin/bwa", fields="Section: science\nDepends: libc6 (>= 2.3), zlib-tool | x\n"
    )
    debian_package(top, "zlib-tool", "1", "/usr/bin/pigz", fields="Section: science\n")
    assert names_of(found_in(top)) == {"bwa": ["bwa"]}


def test_what_nobody_has_packed_counts_if_packages_only_help_to_build(top: Path) -> None:
    debian_package(top, "cmake", "3.25", "/usr/bin/cmake", fields="Section: devel\n")
    debian_package(top, "mawk", "1.3", "/usr/bin/mawk", fields="Priority: required\n")
    program(top, "/usr/local/bin/gmx")
    write(top, "/usr/local/bin/GMXRC")
    link(top, "/usr/bin/awk", "/etc/alternatives/awk")
    link(top, "/etc/alternatives/awk", "/usr/bin/mawk")
    link(top, "/usr/local/bin/lost", "/nowhere")
    program(top, "/usr/bin/busybox")
    link(top, "/usr/local/bin/vi", "/usr/bin/busybox")
    found = found_in(top)
    assert [one.name for one in found.packages if one.is_supporting] == ["cmake"]
    assert [(one.name, one.path, one.package) for one in found.commands] == [("gmx", "/usr/local/bin/gmx", "")]


def test_alpine_s_own_commands_are_not_the_image_s(tmp_path: Path) -> None:
    program(tmp_path, "/usr/bin/apk-tool")
    program(tmp_path, "/usr/bin/mine")
    write(tmp_path, "/lib/apk/db/installed", "P:x\nV:1\nF:usr/bin\nR:apk-tool\nZ:Q1\n\n")
    assert [one.name for one in found_in(tmp_path).commands] == ["mine"]


def test_rpm_s_package_that_came_after_the_base(tmp_path: Path) -> None:
    for name in ("bash", "gmx", "helper"):
        program(tmp_path, f"/usr/bin/{name}")
    rpm_database(
        tmp_path,
        rpm_header(transaction=1, name="bash", files=["/usr/bin/bash"]),
        rpm_header(transaction=2, name="gromacs", files=["/usr/bin/gmx", "/usr/share/x"], requires=["libhelp"]),
        rpm_header(transaction=2, name="libhelp", files=["/usr/bin/helper"]),
        b"",
        b"\xff" * 64,
        struct.pack(">2I", 1, 4) + struct.pack(">4I", 1000, 4, 1 << 31, 1) + b"abcd",
    )
    (package,) = found_in(tmp_path).packages
    assert (package.name, package.version, package.summary, package.manager) == ("gromacs", "2.1", "a summary", "rpm")
    assert [one.name for one in package.commands] == ["gmx"]


def test_a_header_of_rpm_that_repeats_itself_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = rpm_header(transaction=1, name="x", files=[])
    many = 100_000
    table = header[8:24] * many
    _entries, length = struct.unpack_from(">2I", header)
    repeated = struct.pack(">2I", many, length + (1 << 20)) + table + header[-length:] + bytes(1 << 20)
    begun = time.process_time()
    assert rpm._header(repeated, rpm._Allowance()) == {1000: ["x"]}
    assert time.process_time() - begun < 5
    rpm_database(tmp_path, *[header] * 3)
    monkeypatch.setattr(rpm, "_MOST_SECONDS", -1)
    assert "can't be read: that takes more than" in found_in(tmp_path).unread


def test_a_temporary_folder_can_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "what?mode=rw#1 %41"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for name in ("bash", "gmx"):
        program(tmp_path, f"/usr/bin/{name}")
    rpm_database(
        tmp_path,
        rpm_header(transaction=1, name="bash", files=["/usr/bin/bash"]),
        rpm_header(transaction=2, name="gromacs", files=["/usr/bin/gmx"]),
    )
    assert [one.name for one in found_in(tmp_path).packages] == ["gromacs"]


@pytest.mark.parametrize(("name", "kind"), [("Packages", "Berkeley DB"), ("Packages.db", "ndb")])
def test_a_database_that_only_rpm_reads_is_named(tmp_path: Path, name: str, kind: str) -> None:
    write(tmp_path, f"/var/lib/rpm/{name}", "x")
    assert kind in found_in(tmp_path).unread


def test_a_database_that_is_none_or_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "/var/lib/rpm/rpmdb.sqlite", "not a database" * 100)
    assert "can't be read" in found_in(tmp_path).unread
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS hnum, x'00' AS blob FROM n"
    rpm_database(tmp_path, statement=f"CREATE VIEW Packages AS {endless}")
    assert "no table of packages" in found_in(tmp_path).unread
    monkeypatch.setattr(rpm, "_MOST_BYTES", 100)
    assert "is larger than" in found_in(tmp_path).unread


def test_columns_that_a_database_computes_are_refused(tmp_path: Path) -> None:
    """A function such as randomblob runs for seconds, and no look at the clock ends it."""
    statement = "CREATE TABLE Packages (hnum INTEGER, plain BLOB, blob BLOB AS (zeroblob(8) || plain))"
    write(tmp_path, "/var/lib/rpm/rpmdb.sqlite").unlink()
    with contextlib.closing(sqlite3.connect(tmp_path / "var/lib/rpm/rpmdb.sqlite")) as database:
        database.execute(statement)
    assert "computed columns" in found_in(tmp_path).unread


def test_rpm_paths_with_a_long_folder_are_not_multiplied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header of 16 MiB could have a million names in one folder with a name of millions of letters."""
    monkeypatch.setattr(rpm, "_Allowance", partial(rpm._Allowance, characters=5_000))
    program(tmp_path, "/usr/bin/gmx")
    folder = "/" + "d" * 1_000
    rpm_database(tmp_path, rpm_header(transaction=2, name="x", files=[f"{folder}/{n}" for n in range(10)]))
    assert "MiB" in found_in(tmp_path).unread


def test_rpm_s_values_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpm, "_Allowance", partial(rpm._Allowance, values=50))
    twice = struct.pack(">2I", 20, 20) + struct.pack(">4I", 1047, 8, 0, 20) * 20 + b"\0" * 20
    path = rpm_database(tmp_path, twice)
    assert not found_in(tmp_path).unread
    path.unlink()
    rpm_database(tmp_path, twice, twice, twice)
    assert "files and capabilities" in found_in(tmp_path).unread
    monkeypatch.setattr(rpm, "_MOST_SECONDS", -1)
    rpm_database(tmp_path, rpm_header(transaction=2, name="x", files=["/usr/bin/x"]))
    assert "seconds" in found_in(tmp_path).unread


def test_packages_of_rpm_that_all_need_one_are_not_compared_with_all(tmp_path: Path) -> None:
    needing = [rpm_header(transaction=2, name=f"p{number}", files=(), requires=["x"]) for number in range(10_000)]
    base = rpm_header(transaction=1, name="base", files=())
    rpm_database(tmp_path, base, *needing, *[rpm_header(transaction=2, name="x", files=())] * 10_000)
    packages, _unread = rpm.rpm_packages(SandboxFiles(tmp_path))
    begun = time.process_time()
    assert not list(subject._of_rpm(packages, subject._Folders(SandboxFiles(tmp_path), [])))
    assert time.process_time() - begun < 3


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"name": 1}', '{"name": "x", "files": "bin/x"}'])
def test_notes_of_conda_that_are_none_do_no_harm(tmp_path: Path, text: str) -> None:
    write(tmp_path, "/usr/local/conda-meta/x-1-0.json", text)
    program(tmp_path, "/usr/local/bin/x")
    for history in ("", "# update specs: ['x", "# update specs: 7", '# update specs: ["x"]', "# update specs: [[1]]"):
        write(tmp_path, "/usr/local/conda-meta/history", history)
        assert not found_in(tmp_path).packages


def test_a_million_commands_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_COMMANDS", 3)
    for number in range(6):
        program(tmp_path, f"/usr/local/bin/c{number}")
    assert len(found_in(tmp_path).commands) == 3
    conda_package(tmp_path, "x", "1", files=[f"bin/c{number}" for number in range(6)])
    assert [len(one.commands) for one in found_in(tmp_path).packages] == [3]


def test_a_listing_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sifmod.image.files.MOST_NAMES", 10)
    for number in range(20):
        program(tmp_path, f"/usr/local/bin/c{number}")
    with pytest.raises(ImageError, match="file names"):
        found_in(tmp_path)
