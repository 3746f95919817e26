"""What an image's files say of its Linux."""

import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from sifmod.errors import ImageError
from sifmod.image import system
from sifmod.image.files import SandboxFiles

from ..imagetrees import write


def test_debian(top: Path) -> None:
    files = SandboxFiles(top)
    packages = system.system_packages(files)
    assert packages == {"python3.11": "3.11.2-6+deb12u6", "mpich": "4.0.2-3"}
    assert system.os_release(files)["PRETTY_NAME"] == "Debian GNU/Linux 12 (bookworm)"
    assert system.libc(files, packages) == "glibc 2.36"
    assert system.architecture(files) == "arm64"
    assert system.labels(files) == {"name": "a tree", "number": "7"}
    assert system.script(files, "runscript") == "#!/bin/sh\nexec python3"
    assert system.script(files, "test") == ""


def test_locales_are_folders_and_names_in_an_archive(tmp_path: Path) -> None:
    names = b"en_US.utf8\0de_DE\0de_DE.utf8\0"
    archive = tmp_path / "usr/lib/locale/locale-archive"
    (archive.parent / "C.UTF-8").mkdir(parents=True)
    archive.write_bytes(struct.pack("=7I", 0xDE020109, 0, 56, 3, 907, 40, len(names)) + bytes(12) + names + b"data")
    assert system.locales(SandboxFiles(tmp_path), "glibc 2.31") == ("C.utf8", "de_DE.utf8", "en_US.utf8")
    (archive.parent / "C.UTF-8").rmdir()
    for libc, found in (("glibc 2.31", 0), ("glibc 2.36", 3), ("musl 1.2.4", 0)):
        assert len(system.locales(SandboxFiles(tmp_path), libc)) == found
    archive.write_bytes(struct.pack("=7I", *[0xFFFFFFFF] * 7))
    assert system.locales(SandboxFiles(tmp_path), "glibc 2.36") == ("C.utf8",)


def test_alpine(tmp_path: Path) -> None:
    files = SandboxFiles(tmp_path)
    assert system.os_release(files) == {}
    assert (system.libc(files, {}), system.architecture(files)) == ("", "")
    assert (system.labels(files), system.environment(files)) == ({}, {})
    write(tmp_path, "/lib/ld-musl-x86_64.so.1")
    assert system.libc(SandboxFiles(tmp_path), {}) == "musl"
    write(tmp_path, "/lib/apk/db/installed", "C:Q1x\nP:musl\nV:1.2.4-r2\nA:x86_64\n\nP:x\nV:1\n")
    packages = system.system_packages(SandboxFiles(tmp_path))
    assert packages == {"musl": "1.2.4-r2", "x": "1"}
    assert system.libc(SandboxFiles(tmp_path), packages) == "musl 1.2.4"


@pytest.mark.parametrize(
    ("needed", "present", "said"),
    [
        ("2.34", "glibc 2.31", "needs glibc 2.34, but the image has glibc 2.31"),
        ("2.4", "glibc 2.31", ""),
        ("2.34", "glibc 2.34", ""),
        ("2.34", "musl 1.2.4", "needs glibc 2.34, but the image has musl 1.2.4"),
        ("2.34", "musl", "needs glibc 2.34, but the image has musl"),
        ("", "musl", ""),
        ("", "glibc 2.31", ""),
        ("2.34", "", ""),
    ],
)
def test_a_library_is_compared_with_the_c_library(needed: str, present: str, said: str) -> None:
    assert system.glibc_problem(needed, present) == said


def test_packages_that_the_image_lists_itself(tmp_path: Path) -> None:
    """The format of LUMI's images; any other file of that name does no harm."""
    listed = (
        '{"apt": [{"name": "libcxi", "version": "1.0-2"}], "pip": [{"name": "torch", "version": "2.7.1"}, {"name": 3}]}'
    )
    write(tmp_path, "/.sbom.json", listed)
    assert system.listed_packages(SandboxFiles(tmp_path)) == (("libcxi", "1.0-2"), ("torch", "2.7.1"))
    for text in ("", "[1]", '{"apt": "all"}', '{"apt": ["x", null]}', "[" * 100_000, "{"):
        write(tmp_path, "/.sbom.json", text)
        assert system.listed_packages(SandboxFiles(tmp_path)) == ()


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": {"b": 1}}'])
def test_labels_that_are_none_do_no_harm(top: Path, text: str) -> None:
    write(top, "/.singularity.d/labels.json", text)
    assert all(isinstance(value, str) for value in system.labels(SandboxFiles(top)).values())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("export X=plain", "plain"),
        ("    X='single $HOME'", "single $HOME"),
        ('export X="double"', "double"),
        ('export X="${X:-"12.4.1"}"', "12.4.1"),
        ('export X="${X:-12.4.1}"', "12.4.1"),
        ('export X="/opt/venv/bin:$PATH"', f"/opt/venv/bin:{system.DEFAULT_PATH}"),
        ('export X="$UNKNOWN:x"', "$UNKNOWN:x"),
        ('X="${A}/b"', "first/b"),
        (r'export X="a \"quoted\" word"', 'a "quoted" word'),
        ("export X=", ""),
    ],
)
def test_variables_are_read_without_a_shell(top: Path, line: str, value: str) -> None:
    write(top, "/.singularity.d/env/10-docker2singularity.sh", "#!/bin/sh\nexport A=first\n")
    write(top, "/.singularity.d/env/90-environment.sh", f"#!/bin/sh\nif true; then :; fi\n{line}\n")
    write(top, "/.singularity.d/env/99-base.sh", "X=no")
    assert system.environment(SandboxFiles(top)) == {"A": "first", "X": value}


# Limits


def doubled(levels: int) -> str:
    return "export A0=xxxxxxxxxxxxxxxx\n" + "".join(
        f'export A{level}="$A{level - 1}${{A{level - 1}}}"\n' for level in range(1, levels + 1)
    )


@pytest.mark.parametrize("levels", [14, 26, 60])
def test_variables_that_double_are_refused_before_they_fill_the_memory(top: Path, levels: int) -> None:
    write(top, "/.singularity.d/env/90-environment.sh", doubled(levels))
    tracemalloc.start()
    try:
        with pytest.raises(ImageError) as caught:
            system.environment(SandboxFiles(top))
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert f"the environment of '{top}' exceeds a limit of Linux" in message
    assert "128 KiB in one variable, 6 MiB in total) with the variable 'A14'" in message


def test_variables_that_fit_are_filled_in_and_soon(top: Path) -> None:
    write(top, "/.singularity.d/env/90-environment.sh", doubled(13))
    assert len(system.environment(SandboxFiles(top))["A13"]) == 128 << 10
    write(top, "/.singularity.d/env/90-environment.sh", "".join(f"A{number}=\n" for number in range(100_000)))
    begun = time.process_time()
    assert len(system.environment(SandboxFiles(top))) == 100_000
    assert time.process_time() - begun < 10


def test_a_line_or_many_variables_that_are_too_long_are_refused(top: Path) -> None:
    write(top, "/.singularity.d/env/90-environment.sh", f"{doubled(12)}export B={'$A12' * 100_000}\n")
    with pytest.raises(ImageError, match="with the variable 'B'"):
        system.environment(SandboxFiles(top))
    lines = "".join(f"export B{number}=$A13\n" for number in range(100))
    write(top, "/.singularity.d/env/90-environment.sh", doubled(13) + lines)
    with pytest.raises(ImageError, match=r"6 MiB in total\) with the variable 'B4[0-9]'"):
        system.environment(SandboxFiles(top))


@pytest.mark.parametrize("size", [4, 5, 18, 19])
def test_a_program_that_ends_in_its_header_tells_no_architecture(tmp_path: Path, size: int) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").write_bytes((b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\x00")[:size])
    assert system.architecture(SandboxFiles(tmp_path)) == ""
    (tmp_path / "bin/sh").write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\x00")
    assert system.architecture(SandboxFiles(tmp_path)) == "amd64"
