"""The lock of an environment, stubs of the packages below it, and what pip's output lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from sifmod.inside import installing

ARCHIVE = "Downloading my_pkg-1.2.tar.gz (3 kB)\n  ERROR: \x1b[1mFailed building wheel for my-pkg\n"


@pytest.mark.parametrize(
    ("said", "words", "lacked", "wanted"),
    [
        ("error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory", ["./a"], "a compiler", "./a"),
        ("error: command '/usr/bin/g++' failed: No such file", ["x"], "a compiler", "REQUIREMENT"),
        ("unable to execute 'gcc': No such file or directory\n" + ARCHIVE, ["x"], "a compiler", "my-pkg==1.2"),
        ("error: [Errno 2] No such file or directory: 'gcc'", ["-e", "."], "a compiler", "."),
        ("error: command 'gcc' failed: No such file", ["-r", "./r.txt", "-e", "./a[x,y]"], "a compiler", "./a"),
        ("Python.h: No such file", ["-f", "/w", "-c", "../c.txt", "a"], "Python's headers", "REQUIREMENT"),
        ("../meson.build:1:0: ERROR: Unknown compiler(s): [['cc'], ['gcc']]", ["x"], "a compiler", "REQUIREMENT"),
        ("CMake Error: No CMAKE_CXX_COMPILER could be found.", ["x"], "a compiler", "REQUIREMENT"),
        ("a.c:1:10: fatal error: Python.h: No such file or directory", ["x"], "Python's headers", "REQUIREMENT"),
        ("ERROR: Cannot find command 'git' - do you have 'git'", ["git+ssh://a/b"], "git", "git+ssh://a/b"),
        ("Git executable not found. Ensure that", ["b @ git+https://a/b"], "git", "'b @ git+https://a/b'"),
    ],
)
def test_the_verb_that_builds_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    words: list[str],
    lacked: str,
    wanted: str,
) -> None:
    monkeypatch.setenv("__SIFMOD_CONTAINER", "Demo/1.0")
    installing.name_build_wheel(said, ["install", *words])
    told = capsys.readouterr().err
    assert told.startswith(f"pip: this container lacks {lacked}, ")
    assert told.endswith(f"type on the host: sifmod build-wheel {wanted} --module Demo/1.0\n")
    assert ("a copy of the source: build it again" in told) == ("-e" in words)


@pytest.mark.parametrize(
    "said",
    ["", "error: command 'gcc' failed with exit code 1", "fatal error: mpi.h: No such file", "No such file: 'digit'"],
)
def test_a_failure_that_a_compiler_does_not_mend_is_left_to_pip(capsys: pytest.CaptureFixture[str], said: str) -> None:
    installing.name_build_wheel(said, ["install", "x"])
    assert capsys.readouterr().err == ""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an environment, whose folder of packages this is, and an image below it."""
    folder = tmp_path / "venv/lib"
    folder.mkdir(parents=True)
    (tmp_path / "image").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(sys, "path", [str(folder), str(tmp_path / "layers/1"), str(tmp_path / "image")])
    monkeypatch.setattr(installing, "packages_folder", lambda: str(folder))
    monkeypatch.setattr(installing, "LAYERS", str(tmp_path / "layers"))
    return folder


def add(path: Path, name: str, version: str, more: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}\n\nText\n")


def test_each_package_below_has_a_stub(environment: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    needs = 'Requires-Dist: numpy\nRequires-Dist: plain (>=1) ; extra == "net"\nProvides-Extra: net'
    add(image / "Odd.Na__me-1.0.dist-info/METADATA", "Odd.Na__me", "1.0", needs)
    (image / "Odd.Na__me-1.0.dist-info/entry_points.txt").write_text("[tools]\none = odd\n")
    (image / "Odd.Na__me-1.0.dist-info/WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-none-any\n")
    (image / "closed_one-2.0.dist-info").mkdir()
    (image / "closed_one-2.0.dist-info/METADATA").symlink_to("gone")
    add(image / "folder.egg-info/PKG-INFO", "folder", "3!1.0")
    add(image / "file-1.0-py3.11.egg-info", "file", "1.0rc1+a-b")
    add(image / "no_version-x.dist-info/METADATA", "no-version", "newest")
    add(image / "~ip-1.0.dist-info/METADATA", "pip", "1.0")
    add(image / "shared-1.0.dist-info/METADATA", "shared", "1.0")
    add(image / "own-1.0.dist-info/METADATA", "own", "1.0")
    add(tmp_path / "layers/1/shared-1.1.dist-info/METADATA", "shared", "1.1", needs)
    add(environment / "own-2.0.dist-info/METADATA", "own", "2.0")
    packages = installing.below({"held": "1.0", "closed-one": "2.0"})
    for is_full in (True, False):
        stubs = installing.make_stubs(str(environment), packages, is_full=is_full)
        found = {one.metadata["Name"]: one for one in distributions(path=[str(environment)])}
        versions = {name: one.version for name, one in found.items() if name != "own"}
        assert versions == {
            **{"Odd.Na__me" if is_full else "odd-na-me": "1.0", "closed-one": "2.0", "folder": "3!1.0"},
            **{"file": "1.0rc1+a-b", "shared": "1.1", "held": "1.0"},
        }
        assert len(stubs) == len(versions)
        odd = found["Odd.Na__me" if is_full else "odd-na-me"]
        assert (odd.requires or [])[-1:] == ['plain (>=1) ; extra == "net"']
        assert ("numpy" in (odd.requires or []), "numpy" in (found["shared"].requires or [])) == (is_full, True)
        assert [one.name for one in odd.entry_points] == ["one"]
        assert "cp311" in (odd.read_text("WHEEL") or "")
        assert all(Path(stub, "WHEEL").read_text() for stub in stubs.values())
        # as if killed here
        (tmp_path / "venv" / installing.STUBS / "half-v1.0.dist-info").mkdir()
        assert installing.versions_in(str(environment)) == {"own": "2.0"}
        installing.remove_stubs(str(environment))
        assert [path.name for path in environment.iterdir()] == ["own-2.0.dist-info"]
        assert not (tmp_path / "venv" / installing.STUBS).exists()


LOCKING = """
import runpy, sys, time
sys.prefix = sys.argv[2]
program = runpy.run_path(sys.argv[1])
lock = program["take_lock"]("pip", sys.argv[3:])
print("locked" if lock >= 0 else "not locked", flush=True)
input()
program["note_status"](lock, 3)
"""


def locking(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    words = (sys.executable, "-c", LOCKING, installing.__file__, str(folder), *words)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, text=True, env={**os.environ, "USER": "me", **env}, **pipes)  # type: ignore[call-overload, no-any-return]


def test_the_second_waits_and_names_the_first(tmp_path: Path) -> None:
    with locking(tmp_path) as first:
        assert first.stdout
        assert first.stdout.readline() == "locked\n"
        with locking(tmp_path) as second:
            assert second.stderr
            assert f" (process {first.pid}) to finish\n" in second.stderr.readline()
            first.communicate("\n")
            assert second.communicate("\n")[0] == "locked\n"
    # what an installer starts does not wait for it
    assert locking(tmp_path, **{installing.LOCKED: "pip"}).communicate("\n")[0] == "not locked\n"


def test_tasks_of_a_step_run_a_command_once_and_end_with_its_status(tmp_path: Path) -> None:
    step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    for words, task, status in (("a", "1", 0), ("a", "0", 3), ("a", "1", 0), ("b", "0", 0), ("a", "0", 0)):
        process = locking(tmp_path, words, SLURM_PROCID=task, **step)
        process.communicate("\n")
        assert process.returncode == status, (words, task)


def test_where_nothing_can_be_locked_one_sentence_is_printed(tmp_path: Path) -> None:
    (tmp_path / installing.LOCK).mkdir()
    out, err = locking(tmp_path).communicate("\n")
    assert (out, len(err.splitlines())) == ("not locked\n", 1)
    assert "can't be locked (Is a directory): until this has ended, run no other install" in err
