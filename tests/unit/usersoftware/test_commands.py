"""The commands of user software on the host: what `refresh-commands` makes of an environment, unpacked and packed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import write_file

from sifmod import names
from sifmod.usersoftware.commands import others_among_commands, refresh_commands, remove_commands

from ..imagetrees import squashfs
from ..render.cases import write_out
from ..support import Need, a_site, a_spec

Put = Callable[..., Path]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return write_out(a_spec(installdir=str(tmp_path / "it's $here")), a_site())


@pytest.fixture
def put(top: Path) -> Put:
    """Write a command of the virtual environment."""

    def write(name: str, mode: int = 0o755) -> Path:
        path = write_file(top / "user-software/venv/demo/bin" / name, "#!/bin/sh\n")
        path.chmod(mode)
        return path

    return write


def commands(top: Path) -> set[str]:
    folder = top / names.USER_COMMANDS
    assert {str(path.readlink()) for path in folder.iterdir() if path.is_symlink()} <= {"../share/user-command"}
    return {path.name for path in folder.iterdir() if path.is_symlink()}


NASTY = ("na me", "-x", "a'b", "$(touch here)", "new\nline", "über", "a[$(touch here)]", ".hidden", "a;b")
# what every environment has, what the module has, and what scripts on the host need
RESERVED = (
    "python",
    "python3.11",
    "pip3",
    "wheel",
    "activate",
    "deactivate",
    "make-squashfs",
    "get-master",
    "ls",
    "sifmod",
)


@pytest.mark.parametrize("is_packed", [False, True])
def test_the_executable_files_of_the_environment_get_a_link(top: Path, put: Put, need: Need, is_packed: bool) -> None:
    for name in (*NASTY, *RESERVED):
        put(name)
    for name in ("cowsay", "cowpy3.11", "cow++"):
        put(name)
    put("library.txt", 0o644)
    folder = put("setgid", 0o2755).parent
    (folder / "folder").mkdir()
    (folder / "cowpy").symlink_to("cowpy3.11")
    (folder / "twice").symlink_to("cowpy")
    (folder / "out").symlink_to("/bin/sh")
    (folder / "above").symlink_to("../bin/cowsay")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "to-nasty").symlink_to("a[$(touch here)]")
    if is_packed:
        squashfs(need("mksquashfs"), top / "user-software", top / "user-software.squashfs")
        need("unsquashfs")
        (folder / "cowsay").unlink()
    (said,) = refresh_commands(top)
    assert said.endswith("these commands stay the host's; to run those of user software: in-container NAME: ls sifmod")
    # the listing of a packed file has a line for each part of a name: such a link leads to nothing
    assert commands(top) - {"new"} == {"cowsay", "cowpy3.11", "cow++", "setgid", "cowpy"}
    assert not list(top.rglob("here"))
    assert others_among_commands(top) == ()


def test_links_go_with_their_commands_and_nothing_else_does(top: Path, put: Put) -> None:
    put("cowsay")
    put("mine")
    refresh_commands(top)
    folder = top / names.USER_COMMANDS
    (folder / "mine").unlink()
    (folder / "mine").symlink_to("/bin/true")
    (folder / "a[$(touch here)]").symlink_to("../share/user-command")
    put("cowsay").unlink()
    (line,) = refresh_commands(top)
    assert line == f"refresh-commands: '{folder}/mine' is not a link of sifmod and was left alone."
    assert [path.name for path in sorted(folder.iterdir())] == [".lock", "mine"]
    assert others_among_commands(top) == (folder / "mine",)
    assert not list(top.rglob("here"))
    remove_commands(top)
    assert (folder / "mine").is_symlink()
    (folder / "mine").unlink()
    remove_commands(top)
    assert not folder.exists()


def test_a_packed_file_that_can_not_be_listed_changes_nothing(top: Path, put: Put, need: Need) -> None:
    need("unsquashfs")
    put("cowsay")
    refresh_commands(top)
    (top / "user-software.squashfs").write_bytes(b"hsqs" + bytes(200))
    (line, *_more) = refresh_commands(top)
    assert "can't be listed" in line
    assert commands(top) == {"cowsay"}


def test_without_the_commands_on_the_host_what_is_there_is_removed(top: Path, put: Put) -> None:
    put("cowsay")
    refresh_commands(top)
    write_out(a_spec(installdir=str(top), user_commands=False), a_site())
    assert refresh_commands(top) == []
    assert not (top / names.USER_COMMANDS).exists()
    assert refresh_commands(top) == []
    (top / "bin/refresh-commands").unlink()
    (line,) = refresh_commands(top)
    assert "were not refreshed" in line


def test_a_hidden_command_of_the_host_is_named_once(top: Path, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put("factor")
    monkeypatch.setenv("PATH", f"{top}/user-bin::relative:/usr/bin:/bin")
    (line,) = refresh_commands(top)
    assert "1 command(s) of user software now come before the host's, such as '/usr/bin/factor': to run that" in line
    assert refresh_commands(top) == []


def test_a_copy_of_a_link_and_a_stale_link_are_messages(top: Path, put: Put, tmp_path: Path) -> None:
    put("cowsay")
    refresh_commands(top)
    copy = tmp_path / "cowsay"
    copy.write_bytes((top / "share/user-command").read_bytes())
    done = subprocess.run(["bash", "-p", copy], capture_output=True, text=True, check=False)
    assert (done.returncode, "use the original one" in done.stderr) == (127, True)
    put("cowsay").unlink()
    done = subprocess.run([top / "user-bin/cowsay"], capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr.endswith("no longer has this command; run: refresh-commands\n")
