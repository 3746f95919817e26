"""Several trees of user software made one: of a package that several have, the first one's files and no others."""

import errno
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.programs import write_file

from sifmod.inside import merge
from sifmod.inside.trees import requirements

from .test_programs import start

SITE = "venv/demo/lib/python3.11/site-packages"
# All that a name of a file may be: bytes without / and null.
ODD_NAMES = ["a b", "two\nlines", "comma,quote\"'", "gr\u00fc\u00dfe", os.fsdecode(b"not-\xff-utf8"), "-rf", "$(x)"]


def put(top: Path, name: str, text: str = "") -> Path:
    return write_file(top / name, text)


def record_line(name: str) -> str:
    """Return a line of RECORD, which is CSV."""
    return ('"{}",,'.format(name.replace('"', '""')) if any(char in name for char in '",\n\r') else f"{name},,") + "\n"


def install(top: Path, name: str, version: str, files: Mapping[str, str], *, folder: str = SITE) -> Path:
    """Install a package as pip does; names of files are relative to site-packages. Return its metadata."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    for path, text in files.items():
        put(top / folder, os.path.normpath(path), text)
    put(top / folder, f"{info}/METADATA", f"Name: {name}\nVersion: {version}\n")
    lines = [record_line(path) for path in (*files, f"{info}/METADATA", f"{info}/RECORD")]
    (top / folder / info / "RECORD").write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    return top / folder / info


def contents(top: Path) -> dict[str, str]:
    """Return what a tree has, without its folders: text of files, targets of links."""
    found = {}
    for path in top.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(top))] = f"-> {path.readlink()}"
        elif path.is_file():
            found[str(path.relative_to(top))] = path.read_text(errors="surrogateescape")
    return found


def in_site(top: Path) -> dict[str, str]:
    """Return what site-packages has, without metadata."""
    found = contents(top / SITE)
    return {name: text for name, text in found.items() if "-info/" not in name}


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    return tmp_path / "upper"


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    return tmp_path / "lower"


@pytest.fixture
def merged(tmp_path: Path, upper: Path, lower: Path) -> Callable[[], Path]:
    """Return what merges the two trees by starting the program."""

    def run() -> Path:
        target = tmp_path / "target"
        for path in (upper, lower, target):
            path.mkdir(exist_ok=True)
        done = start(sys.executable, "merge", target, upper, lower)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return target

    return run


Merged = Callable[[], Path]


def test_each_tree_s_own_packages_are_there(upper: Path, lower: Path, merged: Merged) -> None:
    install(upper, "one", "1", {"one.py": "1", "../../../bin/one": "#!one"})
    install(lower, "two", "2", {"two/__init__.py": "2", "two/data/x": "x"})
    top = merged()
    assert in_site(top) == {"one.py": "1", "two/__init__.py": "2", "two/data/x": "x"}
    assert requirements([str(top / SITE)]) == ["one==1", "two==2"]
    assert (top / "venv/demo/bin/one").read_text() == "#!one"


@pytest.mark.parametrize("other_name", ["two", "Two", "t.w_o"])
def test_of_two_packages_the_upper_one_is_taken(upper: Path, lower: Path, merged: Merged, other_name: str) -> None:
    name = "t-w-o" if other_name == "t.w_o" else "two"
    install(upper, name, "3", {"two/__init__.py": "3", "../../../bin/two": "three"})
    lost = {"two/__init__.py": "2", "two/gone.py": "2", "two/sub/gone.py": "2", "../../../bin/two": "2", "gone.py": ""}
    info = install(lower, other_name, "2", {**lost, "../../../bin/gone": "2", "../../../share/man/gone.1": "2"})
    info.rename(info.with_name(f"{other_name}-2.dist-info"))
    put(lower, f"{SITE}/two/__pycache__/gone.cpython-311.pyc", "compiled")
    put(lower, f"{SITE}/__pycache__/gone.cpython-311.opt-1.pyc", "compiled")
    top = merged()
    assert in_site(top) == {"two/__init__.py": "3"}
    assert requirements([str(top / SITE)]) == [f"{name}==3"]
    assert contents(top / "venv/demo/bin") == {"two": "three"}
    # what had nothing else in it
    assert not (top / "venv/demo/share").exists()
    assert not (top / SITE / "two/sub").exists()
    assert not (top / SITE / "__pycache__").exists()


def test_what_another_package_has_too_is_taken(upper: Path, lower: Path, merged: Merged) -> None:
    """Packages that share a folder often share a file, such as `__init__.py`; a newer one may no longer have it."""
    install(upper, "shared-one", "2", {"shared/one.py": "new"})
    install(lower, "shared-one", "1", {"shared/__init__.py": "both", "shared/one.py": "old", "shared/was.py": "old"})
    install(lower, "shared-two", "1", {"shared/__init__.py": "both", "shared/two.py": "two"})
    assert in_site(merged()) == {"shared/__init__.py": "both", "shared/one.py": "new", "shared/two.py": "two"}


def test_the_first_of_three_has_precedence(tmp_path: Path) -> None:
    trees = [tmp_path / name for name in ("a", "b", "c")]
    for number, tree in enumerate(trees):
        install(tree, "demo", str(number), {"demo.py": str(number), f"only{number}.py": ""})
    install(trees[1], "below", "1", {"below.py": "1"})
    install(trees[2], "below", "0", {"below.py": "0", "lost.py": ""})
    (tmp_path / "target").mkdir()
    assert merge.main(str(tmp_path / "target"), list(map(str, trees))) == 0
    assert in_site(tmp_path / "target") == {"demo.py": "0", "only0.py": "", "below.py": "1"}


def test_environments_and_pythons_are_told_apart(upper: Path, lower: Path, merged: Merged) -> None:
    """A package of another environment hides nothing: Python does not find it there."""
    other = ["venv/other/lib/python3.11/site-packages", "venv/demo/lib/python3.12/site-packages"]
    for folder in other:
        install(upper, "two", "3", {"two.py": "3"}, folder=folder)
    install(lower, "two", "2", {"two.py": "2"})
    top = merged()
    assert [(top / folder / "two.py").read_text() for folder in (*other, SITE)] == ["3", "3", "2"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(upper: Path, lower: Path, merged: Merged, name: str) -> None:
    install(upper, "data", "2", {"data/new": ""})
    install(lower, "data", "1", {f"data/{name}": "gone", f"data/{name}.d/x": "gone"})
    install(lower, "kept", "1", {f"kept/{name}": "kept"})
    put(lower, f"mine/{name}/{name}", "mine")
    top = merged()
    assert in_site(top) == {"data/new": "", f"kept/{name}": "kept"}
    assert contents(top / "mine") == {f"{name}/{name}": "mine"}


def test_odd_names_where_the_locale_has_ascii_only(upper: Path, lower: Path, tmp_path: Path) -> None:
    """As in Python 3.6 without a locale, where later versions use UTF-8."""
    install(upper, "data", "2", {"data/new": ""})
    install(lower, "data", "1", {f"data/{name}": "gone" for name in ODD_NAMES})
    (tmp_path / "target").mkdir()
    words: list[str | Path] = [sys.executable, "-I", "-X", "utf8=0", merge.__file__, tmp_path / "target", upper, lower]
    done = subprocess.run(words, env={"LC_ALL": "C"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert in_site(tmp_path / "target") == {"data/new": ""}


def legacy(top: Path, version: str, files: Mapping[str, str]) -> None:
    """Install a package as an old pip does: its metadata name the Python, and its files are in another list."""
    folder = top / SITE / f"old_style-{version}-py3.6.egg-info"
    put(folder, "PKG-INFO", f"Name: old-style\nVersion: {version}\n")
    put(folder, "installed-files.txt", "".join(f"../{name}\n" for name in files) + "PKG-INFO\n")
    for name, text in files.items():
        put(top / SITE, os.path.normpath(name), text)


def test_a_package_of_an_old_pip_is_one_too(upper: Path, lower: Path, merged: Merged) -> None:
    install(upper, "old-style", "2", {"old/new.py": "2"})
    legacy(lower, "1", {"old/gone.py": "1", "../../../bin/old": "1"})
    top = merged()
    assert in_site(top) == {"old/new.py": "2"}
    assert requirements([str(top / SITE)]) == ["old-style==2"]
    assert not (top / "venv/demo/bin").exists()


def test_metadata_may_be_a_file(upper: Path, lower: Path, merged: Merged) -> None:
    """So does distutils."""
    install(upper, "plain", "2", {"plain.py": "2"})
    put(lower, f"{SITE}/plain-1.egg-info", "Name: plain\nVersion: 1\n")
    put(lower, f"{SITE}/plain.py", "1")
    put(lower, f"{SITE}/kept.py", "no list says whose this is")
    assert set(in_site(merged())) == {"plain.py", "kept.py"}


def test_without_a_list_of_files_the_upper_one_s_are_used(upper: Path, lower: Path, merged: Merged) -> None:
    install(upper, "two", "3", {"two.py": "3"})
    (install(lower, "two", "2", {"two.py": "2"}) / "RECORD").unlink()
    top = merged()
    assert in_site(top) == {"two.py": "3"}
    assert requirements([str(top / SITE)]) == ["two==3"]


def test_what_an_interrupted_pip_left_is_no_package(upper: Path, lower: Path, merged: Merged) -> None:
    put(upper, f"{SITE}/~wo-1.dist-info/RECORD", "two.py,,\n")
    install(lower, "~wo", "1", {"two.py": "2"})
    assert in_site(merged()) == {"two.py": "2"}


@pytest.mark.parametrize(
    "record",
    [
        ",,\n",
        "\n\n",
        "./,,\n../site-packages/,,\n",
        "/etc/passwd,,\n../../../../../../../../etc/passwd,,\n",
        '"no end,,\nhere.py,,\n',
        "nul\0nul,,\n",
        "..,,\n../..,,\n",
    ],
)
def test_a_damaged_list_of_files_hides_no_folder(upper: Path, lower: Path, merged: Merged, record: str) -> None:
    install(upper, "two", "3", {"two.py": "3"})
    (install(lower, "two", "2", {"two.py": "2"}) / "RECORD").write_text(record)
    install(lower, "other", "1", {"other.py": "1"})
    top = merged()
    assert in_site(top) == {"two.py": "3", "other.py": "1"}
    assert requirements([str(top / SITE)]) == ["other==1", "two==3"]


def test_files_that_add_to_python_s_path_are_taken(upper: Path, lower: Path, merged: Merged) -> None:
    """Among them the one that finds layers: there may be others below, of what a module builds on."""
    for tree, text in ((upper, "upper"), (lower, "lower")):
        put(tree, f"{SITE}/_image.pth", text)
    put(upper, f"{SITE}/_below.pth", "layers")
    put(lower, f"{SITE}/editable.pth", "/home/me/project")
    assert in_site(merged()) == {"_below.pth": "layers", "_image.pth": "upper", "editable.pth": "/home/me/project"}


def test_links_are_copied_and_not_followed(lower: Path, merged: Merged, tmp_path: Path) -> None:
    put(tmp_path, "outside/secret", "x")
    lower.mkdir()
    for name, target in (("out", tmp_path / "outside"), ("loop", "."), ("gone", "no -> where")):
        (lower / name).symlink_to(target)
    assert contents(merged()) == {"out": f"-> {tmp_path}/outside", "loop": "-> .", "gone": "-> no -> where"}


def test_of_file_and_folder_the_upper_one_is_taken(upper: Path, lower: Path, merged: Merged, tmp_path: Path) -> None:
    put(upper, "file", "upper")
    put(lower, "file/below", "lower")
    put(upper, "folder/below", "upper")
    put(lower, "folder", "lower")
    (upper / "link").symlink_to(tmp_path)
    put(lower, "link/below", "lower")
    put(upper, "was a link/below", "upper")
    (lower / "was a link").symlink_to(tmp_path)
    (upper / "dangling").symlink_to("nowhere")
    put(lower, "dangling", "lower")
    assert contents(merged()) == {
        "file": "upper",
        "folder/below": "upper",
        "link": f"-> {tmp_path}",
        "was a link/below": "upper",
        "dangling": "-> nowhere",
    }
    # nothing was written through the link
    assert not (tmp_path / "below").exists()


def test_hard_links_stay_links(upper: Path, lower: Path, merged: Merged) -> None:
    for tree in (upper, lower):
        put(tree, f"{tree.name}/a", tree.name)
        os.link(tree / tree.name / "a", tree / tree.name / "b")
    os.link(put(upper, "one", "taken"), upper / "two")
    top = merged()
    assert contents(top) == {
        "upper/a": "upper",
        "upper/b": "upper",
        "lower/a": "lower",
        "lower/b": "lower",
        "one": "taken",
        "two": "taken",
    }
    for first, second in (("upper/a", "upper/b"), ("lower/a", "lower/b"), ("one", "two")):
        assert (top / first).samefile(top / second)
    assert not (top / "upper/a").samefile(upper / "upper/a")


def test_a_hard_link_to_what_is_hidden_has_its_content(upper: Path, lower: Path, merged: Merged) -> None:
    """uv links files of packages that have the same content."""
    install(upper, "two", "3", {"two.py": "3"})
    install(lower, "two", "2", {"a_gone.py": "same"})
    install(lower, "other", "1", {})
    os.link(lower / SITE / "a_gone.py", lower / SITE / "z_kept.py")
    assert in_site(merged()) == {"two.py": "3", "z_kept.py": "same"}


def test_without_hard_links_files_are_copied(upper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BeeGFS has none between folders."""

    def refuse(*_words: object, **_named: object) -> None:
        raise OSError(errno.EXDEV, "no")

    os.link(put(upper, "one", "text"), upper / "two")
    target = tmp_path / "target"
    target.mkdir()
    monkeypatch.setattr(os, "link", refuse)
    assert merge.main(str(target), [str(upper)]) == 0
    assert contents(target) == {"one": "text", "two": "text"}


def test_permissions_and_times_are_kept(upper: Path, lower: Path, merged: Merged) -> None:
    program = put(lower, "both/bin/program", "x")
    program.chmod(0o4750)
    os.utime(program, (1, 2))
    put(lower, "both/mine/x").chmod(0o400)
    (lower / "both/mine").chmod(0o2555)
    put(upper, "both/own")
    (upper / "both").chmod(0o700)
    (lower / "both").chmod(0o755)
    (lower / "empty").mkdir(mode=0o750)
    top = merged()

    def mode(name: str) -> int:
        return stat.S_IMODE((top / name).stat().st_mode)

    assert mode("both/bin/program") == 0o4750
    assert (top / "both/bin/program").stat().st_mtime == 2
    assert (mode("both/mine/x"), mode("both/mine")) == (0o400, 0o2555)
    assert mode("both") == 0o700  # the upper one's
    assert mode("empty") == 0o750


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", ["folder", "folder/file"])
def test_what_cannot_be_read_ends_it_with_a_message(upper: Path, lower: Path, tmp_path: Path, name: str) -> None:
    put(lower, "folder/file")
    upper.mkdir()
    (tmp_path / "target").mkdir()
    (lower / name).chmod(0)
    done = start(sys.executable, "merge", tmp_path / "target", upper, lower)
    (lower / name).chmod(0o700)
    assert done.returncode == 9
    assert str(lower / name) in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("missing", ["upper", "target"])
def test_a_tree_that_is_gone_ends_it_with_a_message(tmp_path: Path, missing: str) -> None:
    for name in {"upper", "target"} - {missing}:
        (tmp_path / name).mkdir()
    if missing == "target":
        put(tmp_path, "upper/x")
    done = start(sys.executable, "merge", tmp_path / "target", tmp_path / "upper")
    assert done.returncode == 9
    assert str(tmp_path / missing) in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 8), (errno.EDQUOT, 8), (errno.EIO, 9)])
def test_a_full_disk_is_told_from_other_failures(
    upper: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    status: int,
) -> None:
    def refuse(_old: str, new: str, **_named: object) -> None:
        raise OSError(number, os.strerror(number), new)

    put(upper, "x")
    (tmp_path / "target").mkdir()
    monkeypatch.setattr(shutil, "copy2", refuse)
    assert merge.main(str(tmp_path / "target"), [str(upper)]) == status
    assert os.strerror(number) in capsys.readouterr().out


NAMES = st.sampled_from(["a", "b", "c.py", "d"])
# a name maps to a text, a link's target in a tuple, or a folder
TREES = st.recursive(
    st.text("xy", max_size=2) | st.tuples(st.sampled_from(["a", "..", "/nowhere"])),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
).map(lambda node: node if isinstance(node, dict) else {})


def build(top: Path, node: Mapping[str, object]) -> None:
    top.mkdir()
    for name, value in node.items():
        if isinstance(value, dict):
            build(top / name, value)
        elif isinstance(value, tuple):
            (top / name).symlink_to(value[0])
        else:
            (top / name).write_text(str(value))


def expected(nodes: list[Mapping[str, object]]) -> dict[str, object]:
    """Return one tree of several: of what is not a folder in all of them, the first."""
    found: dict[str, object] = {}
    for name in {name for node in nodes for name in node}:
        values = [node[name] for node in nodes if name in node]
        folders: list[Mapping[str, object]] = []
        for value in values:
            if not isinstance(value, dict):
                break
            folders.append(value)
        # what follows a file in the middle can't be hidden by it: the folder above it is there already
        rest = [value for value in values[len(folders) :] if isinstance(value, dict)]
        found[name] = expected([*folders, *rest]) if folders else values[0]
    return found


def shape(top: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in top.iterdir():
        link = (str(path.readlink()),) if path.is_symlink() else None
        found[path.name] = link or (shape(path) if path.is_dir() else path.read_text())
    return found


@settings(max_examples=60)
@given(st.lists(TREES, min_size=1, max_size=4))
def test_any_trees(nodes: list[Mapping[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder, str(number)) for number in range(len(nodes))]
        for tree, node in zip(trees, nodes):
            build(tree, node)
        before = [shape(tree) for tree in trees]
        target = Path(folder, "target")
        target.mkdir()
        assert merge.main(str(target), list(map(str, trees))) == 0
        assert shape(target) == expected(nodes)
        assert [shape(tree) for tree in trees] == before


PACKAGES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.sets(st.sampled_from(["x.py", "y/z.py", "y/w.py", "v"]), max_size=3)
)


@settings(max_examples=60)
@given(st.lists(PACKAGES, min_size=1, max_size=4))
def test_any_packages(layers: list[Mapping[str, set[str]]]) -> None:
    """Each package is that of the first tree that has it, whole, and there is no other file."""
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder, str(number)) for number in range(len(layers))]
        wanted: dict[str, str] = {}
        have: set[str] = set()
        for number, (tree, packages) in enumerate(zip(trees, layers)):
            tree.mkdir()
            for name, files in packages.items():
                install(tree, name, str(number), {f"{name}_{file}": f"{number}" for file in files})
                if name not in have:
                    wanted.update({f"{name}_{file}": str(number) for file in files})
            have |= packages.keys()
        target = Path(folder, "target")
        target.mkdir()
        assert merge.main(str(target), list(map(str, trees))) == 0
        assert in_site(target) == wanted
        assert {line.split("==")[0] for line in requirements([str(target / SITE)])} == have


def test_how_far_it_is_goes_to_standard_error(
    upper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = itertools.count(0, 40.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_files=8))  # as of a mounted file
    copy = shutil.copy2

    def minutes_later(old: str, new: str, **options: bool) -> None:
        signal.raise_signal(signal.SIGALRM)  # which comes once a minute
        copy(old, new, **options)

    monkeypatch.setattr(shutil, "copy2", minutes_later)
    for name in "abcd":
        put(upper, name)
    (tmp_path / "target").mkdir()
    assert merge.main(str(tmp_path / "target"), [str(upper)]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "putting together: 1 of 8 files, 4:40 left",
        "putting together: 2 of 8 files, 4:00 left",
        "putting together: 3 of 8 files, 3:20 left",
        "putting together: 4 of 8 files, 2:40 left",
    ]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)

    def full(*_given: object, **_options: bool) -> None:
        signal.raise_signal(signal.SIGALRM)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "isatty", lambda _descriptor: True)
    monkeypatch.setattr(shutil, "copy2", full)
    (tmp_path / "second").mkdir()
    assert merge.main(str(tmp_path / "second"), [str(upper)]) == 8
    assert capfd.readouterr().err.endswith(" left\r\x1b[K"), "the line is taken away before it is said what is wrong"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
