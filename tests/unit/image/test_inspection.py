"""Looking into images of every kind, and into what is none."""

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sifmod.errors import ImageError
from sifmod.image.files import SandboxFiles
from sifmod.image.inspection import Inspection, has_shell, inspect_image

from ..imagetrees import (
    DEFINITION,
    distribution,
    link,
    linux,
    partition,
    python_prefix,
    sif,
    signature,
    squashfs,
    write,
)
from ..support import Need


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = linux(tmp_path_factory.mktemp("tree"))
    python_prefix(top, "/opt/conda", conda=["python-3.11.4-0"])
    write(top, "/opt/conda/bin/activate")
    python_prefix(top, "/opt/conda/envs/pytorch", conda=["x-1-0"], packages=[("torch", "2.2.0+rocm5.6")])
    return top


@pytest.fixture(scope="module")
def packed(tree: Path, tmp_path_factory: pytest.TempPathFactory, need: Need) -> Path:
    return squashfs(need("mksquashfs"), tree, tmp_path_factory.mktemp("x") / "x.squashfs")


def facts(found: Inspection) -> tuple[object, ...]:
    return (
        found.architecture,
        found.os,
        found.libc,
        found.labels,
        found.pythons,
        found.default_python,
        found.components,
    )


def test_sif_squashfs_and_sandbox_hold_the_same(tree: Path, packed: Path, tmp_path: Path) -> None:
    definition = (DEFINITION, b"", b"Bootstrap: docker\nFrom: x\n", 0)
    path = sif(tmp_path / "x.sif", definition, partition(packed.read_bytes()), signature(b"\xab" * 20))
    image, bare, sandbox = (inspect_image(one) for one in (path, packed, tree))
    assert facts(image) == facts(bare) == facts(sandbox)
    assert (image.kind, bare.kind, sandbox.kind) == ("SIF", "SquashFS", "sandbox")
    assert (image.compression, image.block_size, image.size) == ("gzip", 131072, path.stat().st_size)
    assert image.definition == "Bootstrap: docker\nFrom: x"
    assert [one.fingerprint for one in image.signatures] == ["AB" * 20]
    assert (image.architecture, image.os_id) == ("arm64", "debian")
    assert image.runscript == "#!/bin/sh\nexec python3"


def test_the_default_python_is_the_one_with_the_main_package(packed: Path) -> None:
    found = inspect_image(packed)
    assert found.default_python == "/opt/conda/envs/pytorch"
    assert found.python().version_of("torch") == "2.2.0+rocm5.6"
    assert found.python("pytorch") == found.python("/opt/conda/envs/pytorch/") == found.python()
    assert found.python("/usr").kind == "system"
    with pytest.raises(ImageError, match=r"no Python in '/nowhere': it has /opt/conda, .*, /usr"):
        found.python("/nowhere")


@pytest.mark.parametrize(
    ("script", "prefix"),
    [
        ("", "/usr"),
        ('export PATH="/opt/venv/bin:$PATH"', "/opt/venv"),
        ('export WITH_CONDA="source /opt/conda/bin/activate other"', "/opt/conda/envs/other"),
        ("export VIRTUAL_ENV=/opt/venv", "/opt/venv"),
    ],
)
def test_the_default_python_is_the_one_that_the_image_activates(tmp_path: Path, script: str, prefix: str) -> None:
    top = linux(tmp_path)
    python_prefix(top, "/opt/venv", config="home = /usr/bin\n")
    python_prefix(top, "/opt/conda", conda=["python-3.11.4-0"])
    python_prefix(top, "/opt/conda/envs/other", conda=["python-3.11.4-0"])
    write(top, "/.singularity.d/env/90-environment.sh", script)
    assert inspect_image(top).default_python == prefix


def test_user_software_packed_and_not(tmp_path: Path, need: Need) -> None:
    top = tmp_path / "user-software"
    write(top, "/venv/demo/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    site = "/venv/demo/lib/python3.11/site-packages"
    distribution(top, site, "greeting", "1.0")
    write(top, f"{site}/greeting-1.0.dist-info/direct_url.json", '{"url": "file:///mine"}')
    path = squashfs(need("mksquashfs"), top, tmp_path / "user-software.squashfs")
    for one in (top, path):
        found = inspect_image(one)
        assert (found.kind, found.python().packages) == ("user software", (("greeting", "1.0"),))
        assert found.python().origins == (("greeting", "file:///mine"),)


@pytest.mark.parametrize(("kind", "said"), [(2, "ext3"), (5, "encrypted squashfs"), (99, "unknown")])
def test_what_can_not_be_looked_into_is_said_and_the_rest_shown(tmp_path: Path, kind: int, said: str) -> None:
    found = inspect_image(sif(tmp_path / "x.sif", partition(b"x" * 99, kind=kind)))
    assert said in found.unread
    assert found.architecture == "arm64"
    with pytest.raises(ImageError, match=said):
        found.python()


def test_a_sif_without_a_root_file_system(tmp_path: Path) -> None:
    assert "no root file system" in inspect_image(sif(tmp_path / "x.sif")).unread


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.exists, "can't be read: No such file"),
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_bytes(b"\x7fELF" + bytes(500)), "is not a SIF"),
        (lambda path: path.write_bytes(b"hsqs"), "only 4 bytes"),
        (lambda path: path.mkdir(), "neither an image nor user software"),
        (lambda path: write(path, "some/file"), "neither an image nor user software"),
        (make_fifo, "neither a file nor a directory"),
        (lambda path: path.symlink_to("/dev/null"), "neither a file nor a directory"),
        (lambda path: path.symlink_to(path), "can't be read"),
        (lambda path: sif(path, partition(b"hsqs" + bytes(500))), "version 0.0"),
        (lambda path: sif(path, partition(bytes(500))), "does not contain a SquashFS"),
        (lambda path: sif(path, partition(b"")), "only 0 bytes"),
    ],
)
def test_what_is_no_image_is_named_and_nothing_hangs(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "x.sif"
    make(path)
    raised: list[str] = []

    def look() -> None:
        try:
            inspect_image(path)
        except ImageError as error:
            raised.append(str(error))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert said in raised[0]
    assert str(path) in raised[0]


def test_a_folder_of_a_sandbox_that_becomes_a_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home/key").write_text("secret")
    (tmp_path / "image/etc").symlink_to(tmp_path / "home")
    (tmp_path / "image/key").write_text("public")
    files = SandboxFiles(tmp_path / "image")
    assert files._content(tmp_path / "image/etc/key", 0, 9) == b""
    assert files._content(tmp_path / "image/key", 0, 9) == b"public"


def test_a_sandbox_s_links_do_not_lead_out(tmp_path: Path) -> None:
    top = linux(tmp_path / "box")
    write(tmp_path, "secret/labels.json", '{"secret": "yes"}')
    (top / ".singularity.d/labels.json").unlink()
    link(top, "/.singularity.d/labels.json", str(tmp_path / "secret/labels.json"))
    assert inspect_image(top).labels == {}


def fuzzed(path: Path, changes: list[tuple[int, bytes]]) -> Path:
    """Change bytes at random places of the header, the descriptors, or the file system."""
    data = bytearray(path.read_bytes())
    for place, value in changes:
        place %= len(data)
        data[place : place + len(value)] = value
    target = path.with_name("fuzzed")
    target.write_bytes(bytes(data))
    return target


@pytest.fixture(scope="module")
def loose(tree: Path, tmp_path_factory: pytest.TempPathFactory, need: Need) -> Path:
    """The tree in a SIF whose tables and files are not compressed, so that changes reach what they hold."""
    folder = tmp_path_factory.mktemp("loose")
    flags = ("-noI", "-noD", "-noF", "-no-xattrs", "-b", "4K")
    content = squashfs(need("mksquashfs"), tree, folder / "x.squashfs", *flags).read_bytes()
    return sif(folder / "x.sif", partition(content), signature(b"\xab" * 20), total=4)


@settings(max_examples=150)
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), min_size=1, max_size=30))
def test_whatever_is_changed_in_an_image_is_read_or_refused(loose: Path, changes: list[tuple[int, bytes]]) -> None:
    path = fuzzed(loose, changes)
    begun = time.process_time()
    with contextlib.suppress(ImageError):
        inspect_image(path)
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/var/lib/dpkg/status", "Package: x\nStatus: a b installed\n" * 50_000),
        ("/usr/include/nccl.h", "\n" * 500_000),
        ("/usr/include/mpi.h", "# define " + " " * 500_000),
        ("/.singularity.d/env/90-environment.sh", "X=" + " " * 500_000 + "x\n"),
        ("/.singularity.d/env/90-environment.sh", 'X="${X:-' + '"' * 500_000),
        ("/etc/os-release", "NAME='" + "\\" * 500_000),
        ("/opt/conda/pyvenv.cfg", "=" * 500_000),
        ("/usr/lib/python3/dist-packages/x.egg-info", "Name: " + " " * 30_000 + "\n"),
    ],
)
def test_text_that_would_make_a_careless_pattern_slow(tmp_path: Path, path: str, text: str) -> None:
    top = linux(tmp_path)
    (top / path.lstrip("/")).unlink(missing_ok=True)
    write(top, path, text)
    begun = time.process_time()
    inspect_image(top)
    assert time.process_time() - begun < 10


def test_an_image_has_a_shell_unless_its_files_lack_it(tmp_path: Path) -> None:
    top = write(tmp_path / "tree", "/usr/bin/tool").parents[2]
    assert not has_shell(top)
    write(top, "/usr/bin/dash").chmod(0o755)
    (top / "bin").symlink_to("usr/bin")
    (top / "usr/bin/sh").symlink_to("/bin/dash")
    assert has_shell(top)
    assert has_shell(tmp_path / "gone")
