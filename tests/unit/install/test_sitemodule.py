"""`sifmod site module`: the files that it writes, and what it refuses."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.programs import write_file

from sifmod.cli import cli
from sifmod.errors import SifmodError
from sifmod.install.sitemodule import site_module_name, write_site_module

from ..support import a_runner, a_site, snapshot

Call = Callable[..., Result]
FILES = ("lumi-container.lua", "lumi-container")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return lambda *words: a_runner().invoke(cli, ["site", "module", "--site", "lumi", *map(str, words)])


def facts(folder: Path) -> list[tuple[str, int, int, int, int]]:
    """Return what is known of the files in a folder without reading them; to read them changes their time of access."""
    found = [(path.name, path.lstat()) for path in sorted(folder.iterdir())]
    return [(name, one.st_ino, one.st_mode, one.st_size, one.st_mtime_ns) for name, one in found]


def test_a_module_in_both_languages_is_written_and_replaced(call: Call, tmp_path: Path) -> None:
    result = call("--output", "new/modules")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "wrote the module lumi-container, in Lua and Tcl: new/modules/lumi-container.lua new/modules/lumi-container",
        f"load it with: module use {tmp_path}/new/modules; module load lumi-container",
    ]
    assert sorted(path.name for path in (tmp_path / "new/modules").iterdir()) == sorted(FILES)
    result = call("--output", "m", "--name", "any", "--json")
    assert json.loads(result.stdout) == {"module": "any", "site": "lumi", "files": ["m/any.lua", "m/any"]}
    call("--output", "m")
    before = [(tmp_path / "m" / name).read_bytes() for name in FILES]
    (tmp_path / "m" / FILES[0]).write_text("\n".join([before[0].decode().split("\n")[0], "-- of another sifmod"]))
    assert call("--output", "m").exit_code == 0
    assert [(tmp_path / "m" / name).read_bytes() for name in FILES] == before


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["module", "folder", "link", "unreadable", "mentioned", "fifo"])
def test_nothing_else_is_replaced_and_nothing_written(call: Call, tmp_path: Path, file: str, kind: str) -> None:
    call("--output", "m")
    own = (tmp_path / "m" / file).read_text()
    for name in FILES:
        (tmp_path / "m" / name).unlink()
    path = tmp_path / "m" / file
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "own").write_text(own)
        path.symlink_to(tmp_path / "own")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_text({"module": "#%Module\n", "mentioned": f"#%Module\n\n\n{own}", "unreadable": own}[kind])
        if kind == "unreadable" and os.geteuid():
            path.chmod(0)
        elif kind == "unreadable":
            pytest.skip("root reads every file")
    before = facts(tmp_path / "m")
    result = call("--output", "m")
    assert str(result.exception) == (
        f"'m/{file}' is not a file of `sifmod site module`: move it away, or choose another --name or --output"
    )
    assert facts(tmp_path / "m") == before


@pytest.mark.parametrize("name", ["a/b", "a b", ".hidden", "-x", "x.lua", "a\nb", "a\x1b", "ä", "..", "a:b"])
def test_a_name_that_no_module_can_have_is_refused(call: Call, tmp_path: Path, name: str) -> None:
    result = call("--output", "m", f"--name={name}")
    assert (
        str(result.exception) == f"'{name}' can't be the name of the module: use letters, digits, '_', '.', '+' and '-'"
    )
    assert not (tmp_path / "m").exists()


def test_a_site_file_of_an_odd_name_asks_for_a_name() -> None:
    assert site_module_name("", a_site(name="/apps/our.toml")) == "our-container"
    with pytest.raises(
        SifmodError, match="'our site-container' can't be the name of the module: choose one with --name"
    ):
        site_module_name("", a_site(name="/apps/our site.toml"))
    assert site_module_name("ours", a_site(name="/apps/our site.toml")) == "ours"


def test_a_folder_that_can_not_be_made_or_written_to_is_named(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    expected = "the folder 'file/m' can't be made: Not a directory. Choose another one with --output"
    assert str(call("--output", "file/m").exception) == expected
    assert call("--output", "file").exit_code == 2
    (tmp_path / "closed").mkdir(mode=0o500)
    if os.geteuid():
        assert str(call("--output", "closed").exception) == "'closed' can't be written to: Permission denied"


def test_a_full_disk_leaves_the_earlier_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_site_module(tmp_path, "any", a_site())
    before = snapshot(tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SifmodError, match="can't be written to: No space left on device"):
        write_site_module(tmp_path, "any", a_site(gpu="nvidia"))
    assert snapshot(tmp_path) == before


def test_settings_of_the_caller_are_named(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_file(
        tmp_path / ".config/sifmod/config.toml", 'slurm_account = "mine"\n[container_env]\nNCCL_DEBUG = "INFO"\n'
    )
    monkeypatch.setenv("SIFMOD_GPU", "nvidia")
    result = call("--output", "m")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "sifmod: the module has your own setting of gpu, from SIFMOD_GPU",
        f"sifmod: the module has your own setting of container_env.NCCL_DEBUG, from {config}:3",
    ]
