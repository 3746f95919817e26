"""What an image's files say of its Linux."""

from pathlib import Path

import pytest

from sifmod.image import system as imagesystem
from sifmod.image.files import SandboxFiles

from ..imagetrees import linux, write


@pytest.fixture
def top(tmp_path: Path):
    return linux(tmp_path)


def test_debian(top) -> None:
    files = SandboxFiles(top)
    packages = imagesystem.system_packages(files)
    assert packages == {"python3.11": "3.11.2-6+deb12u6", "mpich": "4.0.2-3"}
    assert imagesystem.os_release(files)["PRETTY_NAME"] == "Debian GNU/Linux 12 (bookworm)"
    assert imagesystem.libc(files, packages) == "glibc 2.36"
    assert imagesystem.architecture(files) == "arm64"
    assert imagesystem.labels(files) == {"name": "a tree", "number": "7"}
    assert imagesystem.script(files, "runscript") == "#!/bin/sh\nexec python3"
    assert imagesystem.script(files, "test") == ""


def test_alpine(tmp_path: Path) -> None:
    write(tmp_path, "/lib/ld-musl-x86_64.so.1")
    assert imagesystem.libc(SandboxFiles(tmp_path), {}) == "musl"
    write(tmp_path, "/lib/apk/db/installed", "C:Q1x\nP:musl\nV:1.2.4-r2\nA:x86_64\n\nP:x\nV:1\n")
    packages = imagesystem.system_packages(SandboxFiles(tmp_path))
    assert packages == {"musl": "1.2.4-r2", "x": "1"}
    assert imagesystem.libc(SandboxFiles(tmp_path), packages) == "musl 1.2.4"


def test_nothing_is_there(tmp_path: Path) -> None:
    files = SandboxFiles(tmp_path)
    assert imagesystem.os_release(files) == {}
    assert (imagesystem.libc(files, {}), imagesystem.architecture(files)) == ("", "")
    assert (imagesystem.labels(files), imagesystem.environment(files)) == ({}, {})


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": {"b": 1}}'])
def test_labels_that_are_none_do_no_harm(top, text: str) -> None:
    write(top, "/.singularity.d/labels.json", text)
    assert all(isinstance(value, str) for value in imagesystem.labels(SandboxFiles(top)).values())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("export X=plain", "plain"),
        ("    X='single $HOME'", "single $HOME"),
        ('export X="double"', "double"),
        ('export X="${X:-"12.4.1"}"', "12.4.1"),
        ('export X="${X:-12.4.1}"', "12.4.1"),
        ('export X="/opt/venv/bin:$PATH"', f"/opt/venv/bin:{imagesystem.DEFAULT_PATH}"),
        ('export X="$UNKNOWN:x"', "$UNKNOWN:x"),
        ('X="${A}/b"', "first/b"),
        (r'export X="a \"quoted\" word"', 'a "quoted" word'),
        ("export X=", ""),
    ],
)
def test_variables_are_read_without_a_shell(top, line: str, value: str) -> None:
    write(top, "/.singularity.d/env/10-docker2singularity.sh", "#!/bin/sh\nexport A=first\n")
    write(top, "/.singularity.d/env/90-environment.sh", f"#!/bin/sh\nif true; then :; fi\n{line}\n")
    write(top, "/.singularity.d/env/99-base.sh", "X=no")
    assert imagesystem.environment(SandboxFiles(top)) == {"A": "first", "X": value}
