"""Kill the commands that change layers at every point: what users have installed is never lost, or half in use."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest
from faults import NAMES, Tree, change, killed_at_each_call, on_full_disks, run, said

from conftest import remove

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

# What may lie at the top besides.
KEPT = {"user-software.layers", "user-software.layers.flattened", "user-software.removed"}


@dataclass(frozen=True)
class Case:
    """A command, and the versions from top to bottom before and after it; '' is an empty directory.

    Attributes:
        command: what is typed.
        own: what `Tree.reset` gets.
        layers: versions of the layers, the oldest first.
        removed: what is in `user-software.removed`: its name there, and its version.
        flattened: the versions of layers that were made one, the oldest first, and at last what was on top.
        before: what containers see.
        after: what they see when it is done.
        repeated: exit statuses of the same command, given once more after a fault.
    """

    command: str
    own: dict[str, str]
    before: tuple[str, ...]
    after: tuple[str, ...]
    layers: tuple[str, ...] = ()
    removed: tuple[str, str] = ("", "")
    flattened: tuple[str, ...] = ()
    repeated: tuple[int, ...] = (0,)


CASES = {
    "add": Case("add-layer", {"packed": "one", "previous": "zero"}, ("one",), ("", "one"), repeated=(0, 2)),
    "remove-directory": Case(
        "remove-layer",
        {"directory": "two", "packed": "one", "mark": "x"},
        ("two", "one"),
        ("one",),
        ("one",),
        repeated=(0, 2),
    ),
    "remove-unpacked": Case(
        "remove-layer",
        {"directory": "two", "packed": "zero", "mark": "x"},
        ("two", "one"),
        ("one",),
        ("one",),
        repeated=(0, 2),
    ),
    "remove-packed": Case(
        "remove-layer", {"packed": "two", "previous": "zero"}, ("two", "one"), ("one",), ("one",), repeated=(0, 2)
    ),
    "put-back-directory": Case(
        "remove-layer --rollback",
        {"packed": "one"},
        ("one",),
        ("two", "one"),
        removed=("directory", "two"),
        repeated=(0, 2),
    ),
    "put-back-packed": Case(
        "remove-layer --rollback",
        {"packed": "one"},
        ("one",),
        ("two", "one"),
        removed=("squashfs", "two"),
        repeated=(0, 2),
    ),
    "flatten": Case("flatten-layers", {"packed": "two"}, ("two", "one"), ("two",), ("one",), repeated=(0, 2)),
    "unflatten": Case(
        "flatten-layers --rollback",
        {"packed": "zero"},
        ("zero",),
        ("two", "one"),
        flattened=("one", "two"),
        repeated=(0, 2),
    ),
}


def reset(tree: Tree, case: Case) -> None:
    tree.reset(**case.own)
    for folder, words in (
        ("user-software.layers", case.layers),
        ("user-software.layers.flattened", case.flattened[:-1]),
    ):
        for number, word in enumerate(words, 1):
            (tree.root / folder).mkdir(exist_ok=True)
            shutil.copyfile(tree.saved / f"{word}.squashfs", tree.root / folder / f"{number}.squashfs")
    if case.flattened:
        top = tree.root / "user-software.layers.flattened/top.squashfs"
        shutil.copyfile(tree.saved / f"{case.flattened[-1]}.squashfs", top)
    name, word = case.removed
    if name:
        (tree.root / "user-software.removed").mkdir()
        source = tree.saved / (word if name == "directory" else f"{word}.squashfs")
        target = tree.root / "user-software.removed" / name
        if name == "directory":
            shutil.copytree(source, target, symlinks=True)
            (target / "venv/demo/odd/locked").chmod(0o555)
        else:
            shutil.copyfile(source, target)


def word(tree: Tree, path: Path) -> str:
    """Return the version that a directory or a packed file has; '' for a new, empty environment."""
    packages = path / "venv/demo/lib/python3.11/site-packages"
    if path.is_dir() and not (packages / "greeting.py").exists():
        return ""
    if path.is_dir():
        return (packages / "greeting.py").read_text().split("'")[1]
    return tree.word(path)


def seen(tree: Tree, folder: Optional[Path] = None) -> tuple[str, ...]:
    """Return what containers see, from top to bottom; a version that is there twice in a row counts once."""
    root = folder or tree.root
    directory, packed = root / "user-software", root / "user-software.squashfs"
    marked = directory.is_dir() and (root / "user-software.unpacked").exists()
    found = [word(tree, packed if packed.is_file() and not marked else directory)]
    number = 1
    layers = []
    folder = root / "user-software.layers"
    while (folder / f"{number}.squashfs").is_file() and not (folder / f"{number}.unused").exists():
        layers.append(word(tree, root / f"user-software.layers/{number}.squashfs"))
        number += 1
    for one in reversed(layers):
        if one != found[-1]:
            found.append(one)
    return tuple(found)


def named(tree: Tree) -> set[str]:
    """Return the names that a bind list may have now: that of the packed file, and those of the layers."""
    root = tree.root
    files = [root / "user-software.squashfs", *root.glob("user-software.layers/*.squashfs")]
    return {str(path.relative_to(root)) for path in files if path.is_file()}


def unmarked(tree: Tree) -> set[str]:
    """Return what is in the folder of layers and is no layer, without a mark, or is left beside a mark."""
    there = {path.name for path in tree.root.glob("user-software.layers/*")}
    marked = {name.partition(".")[0] for name in there if name.endswith(".unused")}
    layers, number = set(), 1
    while f"{number}.squashfs" in there and str(number) not in marked:
        layers.add(str(number))
        number += 1
    fine = {f"{number}.{ending}" for number in layers for ending in ("squashfs", "txt", "sha256", "previous")}
    return there - fine - {f"{number}.{ending}" for number in marked for ending in ("squashfs", "unused")}


def everything(tree: Tree) -> set[str]:
    """Return all versions that lie anywhere in the installation."""
    tops = [path for path in tree.root.iterdir() if path.name.startswith("user-software")]
    files = [path for top in tops for path in ([top] if top.is_file() else top.glob("*"))]
    packed = {word(tree, path) for path in files if path.is_file() and re.search(r"squashfs|previous", path.name)}
    folders = [
        path for path in (tree.root / "user-software", tree.root / "user-software.removed/directory") if path.is_dir()
    ]
    return packed | {word(tree, path) for path in folders}


def left(tree: Tree) -> frozenset[tuple[str, int, bytes]]:
    """What a killed command has left: names, modes and contents, but of packed files, which have the time in them."""
    found = set()
    for path in tree.root.rglob("*"):
        name = re.sub(r"(ing)\.\w{6}", r"\1.X", str(path.relative_to(tree.root)))
        if name.startswith((".", "user-")):
            is_text = path.is_file() and not re.search(r"squashfs|previous|sha256|\.X", name)
            found.add((name, path.lstat().st_mode, path.read_bytes() if is_text else b""))
    return frozenset(found)


@pytest.mark.parametrize("name", CASES)
def test_killed_before_and_after_each_tool(tree: Tree, tools: Path, name: str) -> None:
    case = CASES[name]
    reset(tree, case)
    versions = everything(tree)
    names = named(tree) - ({"user-software.squashfs"} if "directory" in case.own else set())
    assert seen(tree) == case.before
    quick = {"FAULT_RUNTIME": str(tools.parent / "quick-runtime"), "FAULT_WORD": "one"}
    if name == "flatten":  # its programs in the container are what is tested
        quick = {}
    assert run(tree, case.command, tools, **quick) == 0, said(tools)
    assert seen(tree) == case.after

    def state() -> tuple[object, ...]:
        return left(tree), seen(tree), frozenset(everything(tree))

    points = 0
    for where in killed_at_each_call(tree, case.command, tools, lambda: reset(tree, case), state, **quick):
        points += 1
        # above the file of all layers these may stay for a moment
        between = {case.before, case.after, *((("two", "one"), ("zero", "one")) if "flatten" in name else ())}
        assert seen(tree) in between, where
        assert everything(tree) >= versions, where
        assert named(tree) >= names, where
        status = run(tree, case.command, tools, **quick)
        assert status in case.repeated, (where, status, said(tools))
        assert seen(tree) == case.after, (where, said(tools))
        assert everything(tree) >= versions, where
        litter = {path.name for path in tree.root.iterdir()} - NAMES - KEPT
        assert litter == set(), where
        assert named(tree) >= names, where
        assert unmarked(tree) == set(), where
        assert not (tree.root / "user-software.removed/incomplete").exists(), where
    print(f"{name}: {points} points")
    assert points >= 6


@pytest.mark.parametrize("name", ["add", "flatten"])
def test_no_process_of_a_container_holds_the_lock(tree: Tree, tools: Path, name: str) -> None:
    case = CASES[name]
    reset(tree, case)
    seen_open = tools.parent / "open"
    body = f'for one in /proc/$$/fd/*; do readlink -f "$one"; done >>{seen_open}; echo started >>{seen_open}'
    change(tools, "singularity", f'{body}; exec "$REAL" "$@"')
    # add-layer starts one only if it can't take the environment from what is packed
    change(tools, "unsquashfs", 'case "$*" in *-no-wildcards*) exit 1 ;; esac; exec "$REAL" "$@"')
    assert run(tree, case.command, tools) == 0, said(tools)
    assert "started" in seen_open.read_text()
    assert ".user-software.lock" not in seen_open.read_text()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.layers])
def test_a_layer_that_is_gone(tree: Tree, tools: Path, name: str) -> None:
    case = CASES[name]
    reset(tree, case)
    layer = tree.root / "user-software.layers/1.squashfs"
    layer.with_suffix(".txt").write_text("greeting==1.0+one\n")
    layer.unlink()
    before = listing(tree)
    assert run(tree, case.command, tools) == 5, said(tools)
    assert f"'{layer}' is gone" in said(tools)
    assert listing(tree) == before


def listing(tree: Tree) -> set[tuple[str, int, int]]:
    found = (path for path in tree.root.rglob("*") if path.name != ".user-software.lock")
    return {(str(path), path.lstat().st_ino, path.lstat().st_size) for path in found if not path.is_dir()}


FULL_DISKS = [
    (name, unit)
    for name in ("add", "remove-unpacked", "remove-packed", "put-back-directory", "flatten", "unflatten")
    for unit in ("bytes", "inodes")
    if (name, unit) != ("unflatten", "bytes")  # without lists of packages it makes names only
]


@pytest.mark.parametrize(("name", "unit"), FULL_DISKS)
def test_a_full_disk_at_each_stage(tree: Tree, tools: Path, tmp_path: Path, name: str, unit: str) -> None:
    case = CASES[name]
    reset(tree, case)
    points = on_full_disks(tree, case.command, tools, tmp_path, unit)
    for point in points:
        where = (point.name, (point / "said").read_text(errors="replace"))
        status = int((point / "status").read_text())
        assert status == (0 if point == points[-1] else 8), where
        assert seen(tree, point) == (case.after if point == points[-1] else case.before), where
        assert "Traceback" not in where[1], where
        for copy in point.glob("user-software*"):
            remove(copy)
    print(f"{name}, {unit}: {len(points) - 1} points")
    assert len(points) > 1
