"""Arguments of uv, taken apart and put together again; what uv itself does with them is tested on the real one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.programs import ran

from sifmod import names
from sifmod.inside import installers
from sifmod.inside.installers import Option

PROGRAM = Path(installers.__file__)

VALUES = st.text("abc./=pipinstal", min_size=1, max_size=12)
FLAGS = st.sampled_from(["-q", "-v", "-qq", "-U", "--offline", "--no-cache", "-n", "--no-progress"])
BEFORE = st.one_of(
    FLAGS.map(lambda word: [word]),
    st.tuples(st.sampled_from(installers.VALUED), VALUES).map(list),
    st.tuples(st.sampled_from(installers.VALUED), VALUES).map(lambda pair: ["=".join(pair)]),
)
ANYWHERE = st.one_of(
    FLAGS.map(lambda word: [word]),
    st.tuples(st.sampled_from(["-r", "-c", "--index-url", "-f", "--extra"]), VALUES).map(list),
    st.tuples(st.sampled_from(["-r", "-f", "-e"]), VALUES.filter(lambda text: text[0] != "=")).map(
        lambda pair: ["".join(pair)]
    ),
    VALUES.map(lambda word: [word]),
)


def joined(groups: list[list[str]]) -> list[str]:
    return [word for group in groups for word in group]


def given_options(*words: str) -> list[tuple[str, str | None]]:
    return [(option.name, option.value) for option in installers.options(words)]


def test_it_has_the_names_of_the_installation() -> None:
    assert Path(installers.HELD).name == names.CONSTRAINTS
    assert (names.HOST_UV, names.WHEELS_INSIDE) == (installers.HOST_UV, installers.WHEELS)
    assert names.MOST_LAYERS == installers.MOST_LAYERS


@given(st.lists(BEFORE), st.lists(BEFORE), st.lists(ANYWHERE))
def test_the_command_is_found_among_global_options(
    first: list[list[str]], second: list[list[str]], rest: list[list[str]]
) -> None:
    arguments = [*joined(first), "pip", *joined(second), "install", *joined(rest)]
    at = len(joined(first))
    assert installers.command_of(arguments) == [(at, "pip"), (at + 1 + len(joined(second)), "install")]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("run pip install x", ["run", "pip"]),
        ("tool run pip install", ["tool", "run"]),
        ("--project pip pip --directory install sync", ["pip", "sync"]),
        ("--new-option value pip install x", ["pip", "install"]),
        ("--version", []),
        ("", []),
    ],
)
def test_other_commands_are_not_taken_for_it(words: str, command: list[str]) -> None:
    assert [word for _, word in installers.command_of(words.split())] == command


def test_options_have_the_values_that_uv_gives_them() -> None:
    assert given_options("-qUr", "a.txt", "-cb.txt", "-f=d", "--index-url=u", "--target", "t", "x", "-r", "-") == [
        ("-q", None),
        ("-U", None),
        ("-r", "a.txt"),
        ("-c", "b.txt"),
        ("-f", "d"),
        ("--index-url", "u"),
        ("--target", "t"),
        ("-r", "-"),
    ]
    assert given_options("--system", "--", "--target", "t") == [("--system", None)]
    assert given_options("-U", "-r", "--", "x") == [("-U", None), ("-r", None)]


@given(st.lists(ANYWHERE), st.booleans())
def test_a_trial_has_all_arguments_in_their_order_except_what_silences_it(groups: list[list[str]], ends: bool) -> None:
    arguments = ["pip", "install", *joined(groups), *(["--", "-q"] if ends else [])]
    found = installers.trial_words(arguments, installers.options(arguments), 2, ["--dry-run"])
    dropped = ("-q", "-v", "-qq")
    kept = [word for group in groups for word in group if group[0] not in dropped]
    assert found == ["pip", "install", "--dry-run", *kept, *(["--", "-q"] if ends else [])]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("--dry-run --quiet --verbose --check --require-hashes --no-verify-hashes x", "x"),
        ("--output-format json --output-format=text x", "x"),
        ("--no-binary :all: --no-binary=:all: --no-binary numpy x", "--no-binary numpy x"),
        ("-qU -qqr a.txt -Pq -qPq", "-U -r a.txt -Pq -Pq"),
        ("-q -- -q", "-- -q"),
    ],
)
def test_what_has_no_place_in_a_trial_is_left_out(words: str, left: str) -> None:
    arguments = words.split()
    assert installers.trial_words(arguments, installers.options(arguments), 0, []) == left.split()


def test_the_user_s_variable_counts_unless_the_user_has_typed_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", "/a b,/c")
    monkeypatch.setenv("UV_CONSTRAINT", "one.txt two.txt")
    assert installers.own_and([], installers.FIND_LINKS, "/own") == [
        "--find-links=/own",
        "--find-links=/a b",
        "--find-links=/c",
    ]
    assert installers.own_and([Option(0, "-f", "x")], installers.FIND_LINKS, "/own") == ["--find-links=/own"]
    assert installers.own_and([], installers.CONSTRAINTS, "one.txt") == ["--constraint=one.txt", "--constraint=two.txt"]
    monkeypatch.delenv("UV_CONSTRAINT")
    assert installers.own_and([], installers.CONSTRAINTS, "/own") == ["--constraint=/own"]


def test_a_plan_is_what_uv_prints_of_it() -> None:
    said = """Using Python 3.11.2 environment at: /user-software/venv/demo
Resolved 4 packages in 3ms
Would download 3 packages
Would uninstall 1 package
Would install 3 packages
 \x1b[31m-\x1b[39m \x1b[1mplain\x1b[0m\x1b[2m==1.0\x1b[0m
 \x1b[32m+\x1b[39m \x1b[1mplain\x1b[0m\x1b[2m==1.1\x1b[0m
 + Some.Name @ file:///tmp/some_name-1.0-py3-none-any.whl
 + other==2.0 (from file:///tmp/other)
"""
    assert installers.read_plan(said) == ({"plain"}, {"plain": "1.1", "some-name": "", "other": ""})
    assert installers.read_plan("Would make no changes\n") == (set(), {})
    assert installers.read_plan(said.replace("install 3", "install 4")) is None


def test_what_can_be_read_only_once_is_read_before_the_trial(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"plain==1.0\n")
    os.close(theirs)
    words = ["-r", f"/dev/fd/{ours}", "-c", "/dev/fd/999"]
    assert installers.buffered(words, installers.options(words)) == {ours: 0}
    for _ in range(2):
        assert Path(f"/dev/fd/{ours}").read_text() == "plain==1.0\n"
    os.close(ours)
    (tmp_path / "r.txt").write_text("first\nsecond\n")
    with (tmp_path / "r.txt").open("rb") as stream:
        os.lseek(stream.fileno(), 6, os.SEEK_SET)
        word = f"--requirements=/proc/self/fd/{stream.fileno()}"
        assert installers.buffered([word], installers.options([word])) == {stream.fileno(): 6}


def test_a_stand_in_has_the_name_the_version_and_the_extras(tmp_path: Path) -> None:
    extras = {"demo-vendor": ["Provides-Extra: net", 'Requires-Dist: plain ; extra == "net"']}
    installers.write_stand_ins(str(tmp_path), {"demo-vendor": "1.2.3+site", "other": "1!2.0"}, extras)
    assert {path.name for path in tmp_path.iterdir()} == {
        "demo_vendor-1.2.3+site-py3-none-any.whl",
        "other-1!2.0-py3-none-any.whl",
    }
    with zipfile.ZipFile(tmp_path / "demo_vendor-1.2.3+site-py3-none-any.whl") as wheel:
        metadata = wheel.read("demo_vendor-1.2.3+site.dist-info/METADATA").decode()
    assert metadata == (
        "Metadata-Version: 2.1\nName: demo-vendor\nVersion: 1.2.3+site\n"
        'Provides-Extra: net\nRequires-Dist: plain ; extra == "net"\n'
    )


def test_only_the_lines_of_extras_are_taken_from_the_image_s_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, lines in (
        ("Demo.Vendor", 'Requires-Dist: numpy\nRequires-Dist: plain (>=1) ; extra == "net"\n'),
        ("stranger", 'Requires-Dist: plain; extra == "net"\n'),
    ):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nProvides-Extra: net\n{lines}\nProvides-Extra: no\n"
        (info / "METADATA").write_text(text)
    monkeypatch.setattr(sys, "path", [f"{sys.prefix}/lib", str(tmp_path)])
    found = installers.extras_of({"demo-vendor": "1.0"})
    assert found == {"demo-vendor": ["Provides-Extra: net", 'Requires-Dist: plain (>=1) ; extra == "net"']}
    assert [installers.required_name(line) for line in found["demo-vendor"]] == ["", "plain"]


def run(tool: str, *words: str, python: str = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program as it lies here; UV_EXCLUDE holds nothing, as there is no file of an installation beside it."""
    return ran([python, "-I", PROGRAM, tool, *words], env=env)


@pytest.mark.parametrize("version", ["", "3.6", "3.7", "3.8", "3.13"])
def test_without_a_uv_it_says_how_to_get_one(version: str) -> None:
    python = shutil.which(f"python{version}") if version else sys.executable
    if not python or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    done = run("uv", "pip", "install", "x", python=python, PATH="/nowhere")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("uv: this container has no uv. To install it, type: pip install uv.")


@pytest.mark.parametrize("words", [["venv", "x"], ["pip", "list"], ["pip", "install", "--help"], []])
def test_everything_else_is_uv_s_own_with_its_status(tmp_path: Path, words: list[str]) -> None:
    fake = tmp_path / "uv"
    fake.write_text('#!/bin/sh\necho "${UV_EXCLUDE-unset}" "$@"\nexit 7\n')
    fake.chmod(0o755)
    done = run("uv", *words, PATH=str(tmp_path), UV_EXCLUDE=installers.HELD)
    assert (done.returncode, done.stdout.split()) == (7, ["unset", *words])
    # the user's own value is nothing that the module has set
    done = run("uv", *words, PATH=str(tmp_path), UV_EXCLUDE="mine.txt")
    assert (done.returncode, done.stdout.split()) == (7, ["mine.txt", *words])


@pytest.mark.parametrize(("words", "env"), [(["--user", "x"], {}), (["x"], {"PIP_USER": "yes"})])
def test_pip_does_not_install_where_python_does_not_look(words: list[str], env: dict[str, str]) -> None:
    done = run("pip", "install", *words, HOME="/home/me", PYTHONNOUSERSITE="1", **env)
    assert done.returncode == 1
    assert "would install into /home/me/.local/lib/python" in done.stderr
    assert done.stderr.endswith("type: env -u PIP_USER pip install x\n" if env else "type: pip install x\n")


@pytest.mark.parametrize("version", ["", "3.6", "3.7", "3.8", "3.13"])
@pytest.mark.parametrize("module", ["json.tool", "mine"])
def test_a_module_is_not_one_of_the_current_folder(tmp_path: Path, module: str, version: str) -> None:
    python = shutil.which(f"python{version}") if version else sys.executable
    if not python or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    clone, own = tmp_path / "clone", tmp_path / "own"
    (clone / "pip").mkdir(parents=True)
    own.mkdir()
    for name in ("json", "mine", "runpy", "typing", "argparse", "pip/__main__", "pip/__init__", "sitecustomize"):
        (clone / f"{name}.py").write_text("raise SystemExit('hostile')")
    (own / "mine.py").write_text("import sys, json, typing; print(json.loads(sys.argv[1]))")
    # what the user has set has its effect
    env = {"PYTHONPATH": str(own), "PYTHONIOENCODING": "utf-8"}
    words = [python, "-c", installers.AS_MODULE, module, *(["[1]"] if module == "mine" else [])]
    done = ran(words, cwd=clone, env=env, input="[1]")
    assert (done.stderr, done.stdout.split()) == ("", ["[1]"] if module == "mine" else ["[", "1", "]"])


@pytest.mark.parametrize("search", ["", ":", "::{0}:", "{0}:"])
def test_pip_is_not_one_of_the_current_folder(tmp_path: Path, search: str) -> None:
    for name in ("pip", "typing", "json", "encodings"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hostile')")
    done = ran(
        [sys.executable, "-I", PROGRAM, "pip", "--version"], cwd=tmp_path, env={"PYTHONPATH": search.format("/own")}
    )
    assert (done.stderr, done.stdout[:4]) == ("", "pip ")


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
        ("Failed to build `a.b==1.0`\ncommand 'cc' failed: No such file", ["a.b"], "a compiler", "a.b==1.0"),
        (
            "Failed to build `a @ file:///work/a%20b`\ncommand 'cc' failed: No such file",
            ["add"],
            "a compiler",
            "'/work/a b'",
        ),
        # as uv breaks long lines
        (
            "  x Failed to build `from-c @\n  │ file:///work/a-\n  │ b/from-c`\n  │ command 'cc' failed: No such file",
            ["./from-c"],
            "a compiler",
            "/work/a-b/from-c",
        ),
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
    installers.name_build_wheel("pip", said, ["install", *words])
    told = capsys.readouterr().err
    assert told.startswith(f"pip: this container lacks {lacked}, ")
    assert told.endswith(f"type on the host: sifmod build-wheel {wanted} --module Demo/1.0\n")
    assert ("a copy of the source: build it again" in told) == ("-e" in words)


def test_a_folder_is_named_as_it_was_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether or not uv's progress has broken the line that names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "from-c").mkdir()
    for line in (
        f"Failed to build `from-c @ file://{tmp_path}/from-c`",
        "Failed to build `from\x1b[2K Preparing (0/1)",
    ):
        installers.name_build_wheel("uv", f"{line}\ncommand 'cc' failed: No such file", ["pip", "install", "./from-c"])
        assert "sifmod build-wheel ./from-c --module" in capsys.readouterr().err


@pytest.mark.parametrize(
    "said",
    ["", "error: command 'gcc' failed with exit code 1", "fatal error: mpi.h: No such file", "No such file: 'digit'"],
)
def test_a_failure_that_a_compiler_does_not_mend_is_left_to_pip(capsys: pytest.CaptureFixture[str], said: str) -> None:
    installers.name_build_wheel("pip", said, ["install", "x"])
    assert capsys.readouterr().err == ""


def test_what_pip_says_is_passed_on_and_its_status_is_kept() -> None:
    done = run("pip", "install", "--no-index", "no-such-package-here")
    assert done.returncode == 1
    assert "No matching distribution found for no-such-package-here" in done.stderr
    assert run("pip", "install", "--help").stdout.startswith("\nUsage:")
    assert run("pip", "--version", PYTHONNOUSERSITE="1").stdout.startswith("pip ")
    # the value of an option is not the command
    assert run("pip", "list", "--user", PYTHONNOUSERSITE="1").returncode == 0


@pytest.mark.parametrize(
    ("command", "arguments", "way"),
    [
        ("install", ["install", "a b"], "add-layer; pip install 'a b'; make-squashfs"),
        ("uninstall", ["uninstall", "a"], "unmake-squashfs; pip uninstall a; make-squashfs --replace"),
        ("sync", ["sync", "a.txt"], "unmake-squashfs; pip sync a.txt; make-squashfs --replace"),
    ],
)
def test_what_can_be_done_with_packed_user_software_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, arguments: list[str], way: str
) -> None:
    """What is packed can be added to above it, but nothing can be taken from it there."""
    monkeypatch.setattr(installers, "is_packed", lambda _folder: True)
    with pytest.raises(SystemExit) as ended:
        installers.check_not_packed("pip", command, arguments)
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"pip: the user software is packed, which makes it read-only. Type on the host: {way}\n"
    )


def test_the_way_begins_with_what_is_in_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The directory that packing left behind, and as many layers as there may be."""
    directory = tmp_path / "it's user-software"
    directory.mkdir()
    (tmp_path / "values.sh").write_text(f"# values\nsifmod_directory={shlex.quote(str(directory))}\n")
    for number in range(1, names.MOST_LAYERS + 1):
        (tmp_path / f"layers/{number}/venv/demo/lib/python3.11/site-packages/in_layer-1.0.dist-info").mkdir(
            parents=True
        )
    monkeypatch.setattr(installers, "is_packed", lambda _folder: True)
    monkeypatch.setattr(installers, "VALUES", str(tmp_path / "values.sh"))
    monkeypatch.setattr(installers, "LAYERS", f"{tmp_path}/layers/")
    first = "make-squashfs --remove-directory; flatten-layers; "
    for arguments, way in (
        (["install", "--user", "a"], f"host: {first}add-layer; pip install a; make-squashfs\n"),
        (
            ["uninstall", "in-layer"],
            f"host: {first}unmake-squashfs; pip uninstall in-layer; make-squashfs --replace\n",
        ),
        (["uninstall", "other"], "host: unmake-squashfs; pip uninstall other; make-squashfs --replace\n"),
    ):
        with pytest.raises(SystemExit):
            installers.check_not_packed("pip", arguments[0], arguments)
        assert capsys.readouterr().err.endswith(way)
    directory.rmdir()
    with pytest.raises(SystemExit):
        installers.check_not_packed("pip", "install", ["install", "a"])
    assert capsys.readouterr().err.endswith("host: flatten-layers; add-layer; pip install a; make-squashfs\n")


def test_an_environment_is_the_same_by_all_its_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "venv/demo"
    for folder in (own / "bin", tmp_path / "venv/other/bin"):
        folder.mkdir(parents=True)
        (folder / "python").symlink_to(sys.executable)
    (tmp_path / "link").symlink_to("venv/demo")
    monkeypatch.setattr("sys.prefix", str(own))
    monkeypatch.chdir(tmp_path)
    ours = ("link", "link/", "venv/demo/../demo/bin/python", "link/bin/python", f"{own}/lib/new", "venv/other/../demo")
    assert [path for path in ours if not installers.is_in_ours(path)] == []
    others = (".", "venv", "venv/other/bin/python", "link/../other", "venv/demo/../demo2", sys.executable, "new/x")
    assert [path for path in others if installers.is_in_ours(path)] == []
    for words in ("-p link", "-plink/bin/python", "--python=link", "--directory venv -p demo", "-p 3.11 x"):
        monkeypatch.setenv("VIRTUAL_ENV", "link" if "3.11" in words else "/")
        arguments = words.split()
        assert installers.is_ours(installers.options(arguments)), words
        new = installers.with_own_python(arguments, installers.options(arguments))
        assert ("".join(new).endswith(sys.executable)) == ("3.11" not in words)
    monkeypatch.setenv("VIRTUAL_ENV", "link")
    assert not installers.is_ours(installers.options(["-p", "venv/other"]))


@pytest.mark.parametrize("packed", [True, False])
def test_in_somebody_else_s_module_a_module_on_top_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, packed: bool
) -> None:
    monkeypatch.setattr(installers, "is_packed", lambda _folder: packed)
    monkeypatch.setattr(installers, "owner_if_another", lambda _path: "alice")
    monkeypatch.setattr(installers, "RUNSCRIPTS", str(tmp_path))
    monkeypatch.setattr("sys.prefix", "/user-software/venv/demo")
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    monkeypatch.setenv("__SIFMOD_CONTAINER", "Demo/1.0")
    with pytest.raises(SystemExit):
        installers.check_not_packed("pip", "install", ["install", "a"])
    said = capsys.readouterr().err
    assert "of alice" in said
    assert "sifmod on Demo/1.0 --name NAME, then eb with the file that it writes" in said
    assert "add-layer" not in said
    if packed:  # a colleague of the same group may
        tmp_path.chmod(0o770)
        with pytest.raises(SystemExit):
            installers.check_not_packed("pip", "install", ["install", "a"])
        assert "Type on the host: add-layer; pip install a" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["2>/dev/full", "2>&-", "2>file"])
def test_what_uv_says_is_passed_on_as_it_comes_and_its_status_is_kept(tmp_path: Path, end: str) -> None:
    """Also what a process says that it leaves behind, and is not waited for."""
    tool = tmp_path / "uv"
    tool.write_text("#!/bin/sh\necho out\necho said >&2\n(sleep 300; echo late >&2) >/dev/null &\nexit 7\n")
    tool.chmod(0o755)
    code = f"import runpy; print(runpy.run_path({str(PROGRAM)!r})['run_watched']([{str(tool)!r}]), flush=True)"
    command = ["sh", "-c", f'"$1" -c "$2" {end}', "sh", sys.executable, code]
    done = ran(command, cwd=tmp_path, timeout=240)
    assert done.stdout.splitlines() == ["out", "(7, '')" if end == "2>&-" else r"(7, 'said\n')"]
    assert done.returncode == 0
    if end == "2>file":
        assert (tmp_path / "file").read_text() == "said\n"
