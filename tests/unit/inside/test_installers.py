"""What pip and uv are refused, and what is left to them; what uv itself does beside stubs is tested on the real one."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import ran, write_program

from sifmod import names
from sifmod.inside import installers, installing

PROGRAM = Path(installers.__file__)


def test_it_has_the_names_of_the_installation() -> None:
    assert Path(installers.HELD).name == names.CONSTRAINTS
    assert (names.HOST_UV, names.WHEELS_INSIDE) == (installers.HOST_UV, installers.WHEELS)
    assert Path(installers.HELD).name == Path(installing.HELD).name
    assert names.MOST_LAYERS == installers.MOST_LAYERS


def test_options_have_the_values_that_uv_gives_them() -> None:
    words = ["-qUr", "a.txt", "-cb.txt", "-f=d", "--index-url=u", "--target", "t", "-r", "-", "-U", "--", "-t"]
    assert installers.options(words) == [
        ("-q", ""),
        ("-U", ""),
        ("-r", "a.txt"),
        ("-c", "b.txt"),
        ("-f", "d"),
        ("--index-url", "u"),
        ("--target", "t"),
        ("-r", "-"),
        ("-U", ""),
    ]


def run(tool: str, *words: str, python: str = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program as it lies here; UV_EXCLUDE holds nothing, as there is no file of an installation beside it."""
    return ran([python, "-I", PROGRAM, tool, *words], env=env)


@pytest.fixture(params=["", "3.6", "3.7", "3.8", "3.13"])
def python(request: pytest.FixtureRequest) -> str:
    found = shutil.which(f"python{request.param}") if request.param else sys.executable
    if not found or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {request.param} here")
    return found


def test_without_a_uv_it_says_how_to_get_one(python: str) -> None:
    done = run("uv", "pip", "install", "x", python=python, PATH="/nowhere")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("uv: this container has no uv. To install it, type: pip install uv.")


@pytest.mark.parametrize("words", [["venv", "x"], ["pip", "list"], ["pip", "install", "--help"], []])
def test_everything_else_is_uv_s_own_with_its_status(tmp_path: Path, words: list[str]) -> None:
    write_program(tmp_path / "uv", '#!/bin/sh\necho "${UV_EXCLUDE-unset}" "$@"\nexit 7\n')
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


@pytest.mark.parametrize("module", ["json.tool", "mine"])
def test_a_module_is_not_one_of_the_current_folder(tmp_path: Path, module: str, python: str) -> None:
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
    for program in (installers, installing):
        monkeypatch.setattr(program, "LAYERS", f"{tmp_path}/layers/")
    folders = sorted(tmp_path.glob("layers/*/venv/demo/lib/python3.11/site-packages"))
    monkeypatch.setattr(sys, "path", [*map(str, folders), *sys.path])
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
    for words in ("-p link", "-plink/bin/python", "-qp link", "--python=link", "-p 3.11 x"):
        monkeypatch.setenv("VIRTUAL_ENV", "link" if "3.11" in words else "/")
        given = installers.options(words.split())
        assert installers.is_ours(given), words
        new = installers.with_own_python(words.split(), given)
        assert "".join(new).endswith(sys.executable) == ("3.11" not in words)
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
