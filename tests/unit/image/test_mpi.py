"""MPI libraries of images, and which of the host's fit them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.image.elf import SharedLibrary, newest_glibc, read_library
from sifmod.image.files import SandboxFiles
from sifmod.image.mpi import MpiLibrary, abi_of, find_mpi, misfit, read_mpi
from sifmod.image.python import find_pythons
from sifmod.inside.mpi_check import MPICH, OPEN_MPI, STANDARD

from ..imagetrees import link, python_prefix, write
from .elfs import GLIBC, elf, mpich, open_mpi


def put(top: Path, path: str, data: bytes) -> None:
    write(top, path).write_bytes(data)


def found(top: Path, **environment: str) -> list[tuple[str, str, str, str]]:
    files = SandboxFiles(top)
    libraries = find_mpi(files, environment=environment, pythons=find_pythons(files))
    return [(one.path, one.abi, one.version, one.glibc) for one in libraries]


def test_headers_of_a_library(tmp_path: Path) -> None:
    put(tmp_path, "/libx.so", elf("libx.so.1", ["liby.so.2", "libc.so.6"], {**GLIBC, "liby.so.2": ["Y_1"]}))
    assert read_library(SandboxFiles(tmp_path), "/libx.so") == SharedLibrary(
        "libx.so.1", ("liby.so.2", "libc.so.6"), "2.34"
    )


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01".ljust(64, b"\xff")])
def test_what_is_no_library_is_none(tmp_path: Path, data: bytes) -> None:
    put(tmp_path, "/libx.so", data)
    assert read_library(SandboxFiles(tmp_path), "/libx.so") is None
    assert read_library(SandboxFiles(tmp_path), "/nowhere") is None


WHOLE = mpich()


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_library_is_read_or_none(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    put(tmp_path, "/libmpi.so.12", bytes(data))
    library = read_library(SandboxFiles(tmp_path), "/libmpi.so.12")
    assert library is None or isinstance(library.soname, str)


def test_glibc_s_versions_are_compared_as_numbers() -> None:
    assert newest_glibc(["GLIBC_2.9", "GLIBC_2.17", "GLIBCXX_3.4.30", "GLIBC_PRIVATE"]) == "2.17"
    assert newest_glibc(["GLIBCXX_3.4"]) == ""


def test_libraries_are_found_where_systems_have_them(top: Path) -> None:
    put(top, "/usr/lib/aarch64-linux-gnu/libmpich.so.12.2.2", mpich(soname="libmpich.so.12"))
    link(top, "/usr/lib/aarch64-linux-gnu/libmpich.so.12", "libmpich.so.12.2.2")
    put(top, "/usr/lib/aarch64-linux-gnu/openmpi/lib/libmpi.so.40", open_mpi())
    put(top, "/opt/mpi/lib/libmpi_abi.so.1", mpich("5.0.2", "libmpi_abi.so.1"))
    put(top, "/usr/lib/aarch64-linux-gnu/libmpicxx.so.12", elf("libmpicxx.so.12"))
    put(top, "/usr/local/lib/libmpi.so", b"INPUT(libmpi.so.12)\n")
    assert found(top) == [
        ("/usr/lib/aarch64-linux-gnu/libmpich.so.12.2.2", MPICH, "4.0.2", "2.34"),
        ("/usr/lib/aarch64-linux-gnu/openmpi/lib/libmpi.so.40", OPEN_MPI, "4.1.4", "2.17"),
        ("/opt/mpi/lib/libmpi_abi.so.1", STANDARD, "5.0.2", "2.34"),
    ]


def test_a_library_of_a_conda_environment(top: Path) -> None:
    python_prefix(top, "/opt/conda", conda=["mpich-4.1.1-h846660c_100"])
    put(top, "/opt/conda/lib/libmpi.so.12.2.2", mpich("4.1.1"))
    assert found(top) == [("/opt/conda/lib/libmpi.so.12.2.2", MPICH, "4.1.1", "2.34")]


def test_the_library_path_and_the_loader_s_configuration_come_first(top: Path) -> None:
    for folder in ("/a", "/b/c", "/opt/x/lib"):
        put(top, f"{folder}/libmpi.so.12", mpich())
    write(top, "/etc/ld.so.conf", "include ld.so.conf.d/*.conf\n")
    write(top, "/etc/ld.so.conf.d/mpi.conf", "# MPI\n/b/c\n")
    assert [path for path, *_ in found(top, LD_LIBRARY_PATH="relative:/a")] == [
        "/a/libmpi.so.12",
        "/b/c/libmpi.so.12",
        "/opt/x/lib/libmpi.so.12",
    ]


@pytest.mark.parametrize(
    ("soname", "needed", "abi"),
    [
        ("libmpi.so.12", ["libucp.so.0"], MPICH),
        ("libmpich.so.12", [], MPICH),
        ("libmpi_gnu_123.so.12", [], MPICH),
        ("libmpi.so.12", ["libopen-rte.so.12"], ""),  # Open MPI 1.10
        ("libmpi.so.40", [], OPEN_MPI),
        ("libmpi.so.20", [], ""),
        ("libmpi_abi.so.0", [], STANDARD),
    ],
)
def test_the_name_tells_the_abi(soname: str, needed: list[str], abi: str) -> None:
    assert abi_of(soname, needed) == abi


def library(abi: str, glibc: str = "2.34") -> MpiLibrary:
    soname = {MPICH: "libmpi.so.12", OPEN_MPI: "libmpi.so.40"}[abi]
    return MpiLibrary(f"/usr/lib/{soname}", soname, abi, "4", "", glibc, True)


@pytest.mark.parametrize(
    ("host", "image", "libc", "needs", "reason"),
    [
        (MPICH, [MPICH], "glibc 2.34", "", ""),
        (MPICH, [OPEN_MPI, MPICH], "glibc 2.36", "", ""),
        (MPICH, [], "glibc 2.36", "", ""),
        (MPICH, [MPICH], "", "", ""),
        (MPICH, [OPEN_MPI], "glibc 2.36", "", "has the ABI of MPICH, but the image has that of Open MPI"),
        (MPICH, [MPICH], "glibc 2.31", "", "needs glibc 2.34, but the image has glibc 2.31"),
        (MPICH, [MPICH], "glibc 2.36", "2.38", "needs glibc 2.38, but the image has glibc 2.36"),
        (MPICH, [MPICH], "musl 1.2.5", "", "needs glibc 2.34, but the image has musl 1.2.5"),
        (MPICH, [MPICH], "glibc 2.4", "", "needs glibc 2.34, but the image has glibc 2.4"),
    ],
)
def test_what_does_not_fit_is_named(host: str, image: list[str], libc: str, needs: str, reason: str) -> None:
    said = misfit(library(host), [library(one) for one in image], libc=libc, needs_glibc=needs)
    assert said == (f"{library(host).path} of the host {reason}" if reason else "")


@pytest.mark.parametrize("said", [bytes(64), b"\0x" * 5_000_000, b"ch4:x\0" * 100_000])
def test_what_a_library_says_of_itself_is_looked_for_in_bounded_time(top: Path, said: bytes) -> None:
    put(top, "/x/libmpi.so.12", elf("libmpi.so.12", data=b"\0ch4:x\0" + said))
    begun = time.process_time()
    found = read_mpi(SandboxFiles(top), "/x/libmpi.so.12")
    assert found
    assert found.version == ""
    assert time.process_time() - begun < 5


def test_ucx_says_its_version_in_paths_of_its_sources(top: Path) -> None:
    put(top, "/x/lib/libmpi.so.12", mpich())
    found = read_mpi(SandboxFiles(top), "/x/lib/libmpi.so.12")
    assert found
    assert found.ucx_version == ""
    put(top, "/x/lib/mpich/libucs.so.0", b"..\0/mpich-5.0.2/modules/ucx-1.20.1/contrib/../src/ucs/async/pipe.c\0")
    found = read_mpi(SandboxFiles(top), "/x/lib/libmpi.so.12")
    assert found
    assert found.ucx_version == "1.20.1"
    put(top, "/x/libmpi.so.12", mpich())
    found = read_mpi(SandboxFiles(top), "/x/libmpi.so.12")
    assert found
    assert (found.words, found.device, found.ucx) == ("MPICH 4.0.2", "ch4:ucx", True)


def test_the_reader_of_elf_is_imported_with_the_first_library_only() -> None:
    look = "import sys; import sifmod.install.installer; print([name for name in sys.modules if name == 'elftools'])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
