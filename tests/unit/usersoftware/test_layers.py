"""The layers of an installation: which there are, what is in them, and what keeps containers from seeing one."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sifmod import names
from sifmod.finding import PROBLEM, Finding
from sifmod.usersoftware import state
from sifmod.usersoftware.layers import Layer, layer_findings, layers, packages_of_all

from ..support import SQUASHFS


def put(root: Path, number: object, content: bytes = SQUASHFS, *, packages: str = "", sum_of: bytes = b"") -> Path:
    """Write a layer, with its list and the SHA-256 of some content."""
    folder = root / names.USER_SOFTWARE_LAYERS
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.squashfs"
    path.write_bytes(content)
    if packages:
        path.with_suffix(".txt").write_text(packages)
    if sum_of:
        path.with_suffix(".sha256").write_text(f"{hashlib.sha256(sum_of).hexdigest()}\n")
    return path


def found(root: Path, *, sums: bool = True) -> list[Finding]:
    return list(layer_findings(root, sums=sums))


def test_without_layers_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert layers(tmp_path) == ()
    assert found(tmp_path) == []
    (tmp_path / names.USER_SOFTWARE_LAYERS).mkdir()
    assert layers(tmp_path) == ()
    assert found(tmp_path) == []


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / names.USER_SOFTWARE_LAYERS).touch()
    assert layers(tmp_path) == ()
    (finding,) = found(tmp_path)
    assert (finding.severity, finding.remedy) == (PROBLEM, "move it away")


def test_the_newest_is_the_first_below_the_user_s_own(tmp_path: Path) -> None:
    put(tmp_path, 1, packages="old==1\n")
    put(tmp_path, 2, SQUASHFS + b"x", packages="new==2\n\n# no package\n")
    newest, oldest = layers(tmp_path)
    assert (newest.path.name, newest.place, newest.packages) == ("2.squashfs", "/user-layers/1", ("new==2",))
    assert (oldest.path.name, oldest.place, oldest.packages) == ("1.squashfs", "/user-layers/2", ("old==1",))
    assert (newest.size, oldest.size) == (len(SQUASHFS) + 1, len(SQUASHFS))
    assert (newest.problem, oldest.problem) == ("", "")
    assert found(tmp_path) == []
    newest.path.unlink()
    assert newest.size is None  # remove-layer was quicker


def test_an_environment_on_top_that_does_not_lead_to_the_layers_is_named(tmp_path: Path) -> None:
    put(tmp_path, 1)
    packages = tmp_path / names.USER_SOFTWARE_DIRECTORY / "venv/demo/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (finding,) = layer_findings(tmp_path, sums=False, venv="demo")
    assert finding.severity == PROBLEM
    assert "user-software' does not lead to the layers below it: it has no venv/demo/lib/python3.11/" in finding.what
    assert f"eb --rebuild {tmp_path}/easybuild/*.eb" in finding.remedy
    (packages / "_below.pth").write_text("import x; p = '/user-layers/2/venv'\n")
    assert len([*layer_findings(tmp_path, sums=False, venv="demo")]) == 1
    (packages / "_below.pth").write_text("import x; p = '/user-layers/1/venv'\n")
    assert [*layer_findings(tmp_path, sums=False, venv="demo")] == []
    (packages / "_below.pth").unlink()
    # what is missing altogether is said elsewhere, and what is no environment
    assert [*layer_findings(tmp_path, sums=False, venv="other")] == []
    shutil.rmtree(tmp_path / names.USER_SOFTWARE_DIRECTORY)
    assert [*layer_findings(tmp_path, sums=False, venv="demo")] == []


def test_a_damaged_layer_is_named_and_its_packages_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, 1, packages="kept==1\n")
    damaged = put(tmp_path, 2, SQUASHFS[:-1], packages="lost==1\n", sum_of=SQUASHFS)
    both = layers(tmp_path)
    assert [layer.problem for layer in both] == ["it is truncated: 95 of 96 bytes", ""]
    assert packages_of_all((), both) == ("kept==1",)
    (finding,) = found(tmp_path)
    assert (finding.severity, finding.topic) == (PROBLEM, "layers")
    assert finding.what == f"'{damaged}' can't be used: it is truncated: 95 of 96 bytes"
    assert finding.remedy.startswith("restore it from a backup")


@pytest.mark.parametrize("sums", [True, False])
def test_another_file_than_was_packed_is_named_if_it_is_read(tmp_path: Path, sums: bool) -> None:
    put(tmp_path, 1, sum_of=SQUASHFS)
    other = put(tmp_path, 2, sum_of=b"another")
    put(tmp_path, 3).with_suffix(".sha256").write_text("no sum\n")
    findings = found(tmp_path, sums=sums)
    assert [finding.what.partition(" has ")[0] for finding in findings] == [f"'{other}'"] * sums


def test_what_ends_to_be_readable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    path = put(tmp_path, 1, sum_of=SQUASHFS)
    monkeypatch.setattr(state, "sha256_of", fail)
    (finding,) = found(tmp_path)
    assert finding.what == f"'{path}' can't be read: Input/output error"


@pytest.mark.parametrize(
    ("numbers", "count", "unseen", "reason"),
    [
        ([2], 0, "2.squashfs", "1.squashfs is missing"),
        ([1, 3, 4], 1, "3.squashfs, 4.squashfs", "2.squashfs is missing"),
        ([1, 2, 10], 2, "10.squashfs", "3.squashfs is missing"),
        (range(1, 10), 8, "9.squashfs", "there may be 8 layers"),
        (range(1, 12), 8, "9.squashfs, 10.squashfs, 11.squashfs", "there may be 8 layers"),
    ],
)
def test_what_is_not_counted_is_named(tmp_path: Path, numbers: list[int], count: int, unseen: str, reason: str) -> None:
    for number in numbers:
        put(tmp_path, number)
    assert len(layers(tmp_path)) == count
    (finding,) = found(tmp_path)
    folder = tmp_path / names.USER_SOFTWARE_LAYERS
    assert (finding.severity, finding.what) == (PROBLEM, f"'{folder}' has what is not used, {unseen}: {reason}")
    assert finding.remedy


@pytest.mark.parametrize("there", [[], [1], [1, 2]])
def test_a_layer_that_is_gone_is_named_by_its_list(tmp_path: Path, there: list[int]) -> None:
    for number in there:
        put(tmp_path, number, packages="kept==1\n")
    gone = put(tmp_path, len(there) + 1, packages="lost==1\n")
    gone.unlink()
    (finding,) = found(tmp_path)
    assert finding.severity == PROBLEM
    assert finding.what == f"'{gone}' is gone, and {gone.stem}.txt lists what was in it"
    assert finding.remedy == f"restore {gone.name} from a backup"


def test_what_is_a_layer_no_longer_needs_no_words(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        put(tmp_path, number)
    for number in (2, 3, 4):
        put(tmp_path, number, packages="old==1\n").with_suffix(names.LAYER_UNUSED).touch()
    put(tmp_path, 4).unlink()
    assert [layer.path.name for layer in layers(tmp_path)] == ["1.squashfs"]
    assert found(tmp_path) == []
    (tmp_path / names.USER_SOFTWARE_LAYERS / "3.unused").unlink()
    (finding,) = found(tmp_path)
    assert "3.squashfs: 2.unused says that 2.squashfs is a layer no longer" in finding.what


@pytest.mark.parametrize("kind", ["folder", "dangling link", "pipe", "loop"])
def test_what_is_no_file_ends_the_count(tmp_path: Path, kind: str) -> None:
    put(tmp_path, 1)
    path = tmp_path / names.USER_SOFTWARE_LAYERS / "2.squashfs"
    make: dict[str, Callable[[Path], object]] = {
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "dangling link": lambda path: path.symlink_to("nowhere"),
        "loop": lambda path: path.symlink_to(path.name),
    }
    make[kind](path)
    put(tmp_path, 3)
    assert [layer.path.name for layer in layers(tmp_path)] == ["1.squashfs"]
    assert "not used, 2.squashfs, 3.squashfs: 2.squashfs is not a file" in found(tmp_path)[0].what


def test_a_link_to_a_file_is_a_layer(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(SQUASHFS)
    put(tmp_path, 1).unlink()
    (tmp_path / names.USER_SOFTWARE_LAYERS / "1.squashfs").symlink_to("../elsewhere")
    assert [layer.problem for layer in layers(tmp_path)] == [""]
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["0.squashfs", "01.squashfs", "1.squashfs.part", "1.log", "x.squashfs", "-1.squashfs", "1.squashfs\n"]
)
def test_other_names_are_no_layers(tmp_path: Path, name: str) -> None:
    put(tmp_path, 1).rename(tmp_path / names.USER_SOFTWARE_LAYERS / name)
    (tmp_path / names.USER_SOFTWARE_LAYERS / "\u0661.squashfs").touch()  # a digit, but not of ours
    assert layers(tmp_path) == ()
    assert found(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("mode", [0, 0o100, 0o400])
def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path, mode: int) -> None:
    put(tmp_path, 1)
    folder = tmp_path / names.USER_SOFTWARE_LAYERS
    folder.chmod(mode)
    try:
        assert len(layers(tmp_path)) == (mode == 0o100)
        findings = found(tmp_path)
    finally:
        folder.chmod(0o700)
    if mode == 0o100:
        assert findings == []
        return
    (finding,) = findings
    assert (finding.severity, finding.what) == (PROBLEM, f"'{folder}' can't be read: Permission denied")
    assert finding.remedy == f"its owner can allow it with: chmod ug+rx {folder}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_layer_that_may_not_be_read_is_named_with_what_its_owner_can_do(tmp_path: Path) -> None:
    path = put(tmp_path, 1)
    path.chmod(0)
    (finding,) = found(tmp_path)
    assert "it can't be read: Permission denied" in finding.what
    assert f"chmod ug+r {path}" in finding.remedy


PACKAGES = st.sampled_from(["a", "b-c", "d"])
SPELLINGS = {"a": ["a", "A"], "b-c": ["b-c", "B_c", "b.C"], "d": ["d"]}


def spelled(package: str) -> st.SearchStrategy[str]:
    return st.sampled_from(SPELLINGS[package])


LINES = st.lists(PACKAGES, unique=True).flatmap(lambda found: st.tuples(*map(spelled, found)))


@given(own=LINES, below=st.lists(st.tuples(LINES, st.booleans()), max_size=4))
def test_the_package_on_top_is_listed(own: tuple[str, ...], below: list[tuple[tuple[str, ...], bool]]) -> None:
    def canonical(line: str) -> str:
        return re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()

    trees = [tuple(f"{name}=={number}" for name in lines) for number, lines in enumerate([own, *(x for x, _ in below)])]
    damaged = [False, *(is_damaged for _, is_damaged in below)]
    listed = packages_of_all(
        trees[0],
        tuple(
            Layer(Path("x"), "/user-layers/1", "damaged" * is_damaged, tree)
            for tree, is_damaged in zip(trees[1:], damaged[1:])
        ),
    )
    usable = [tree for tree, is_damaged in zip(trees, damaged) if not is_damaged]
    for line in listed:
        holders = [tree for tree in usable if canonical(line) in map(canonical, tree)]
        assert line in holders[0]
    assert [canonical(line) for line in listed] == sorted({canonical(line) for tree in usable for line in tree})
