"""The commands of wrappers are started, here in a container that is none."""

import time
from pathlib import Path
from typing import Any

import pytest

from sifmod.container.spec import ContainerSpec
from sifmod.errors import InstallError
from sifmod.install.commands import Started, check_commands

from ..imagetrees import write
from ..support import USR, a_spec


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return an installation whose container is the host, with commands of our own in front."""
    launch = f'launch() {{ PATH={tmp_path}/bin:$PATH exec "$@"; }}\n'
    write(tmp_path, "/installed/share/container.sh", launch)
    for name, text in {
        "tool": 'echo "tool 1.2.3"; echo more',
        "dumb": "echo 'usage 7' >&2; exit 1",
        "noisy": "printf '\\033[2J 1\\n'; while :; do printf 0123456789; done",
        "unlinked": "echo 'tool: error while loading shared libraries: libx.so.1' >&2; exit 127",
    }.items():
        write(tmp_path, f"/bin/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)
    write(tmp_path, "/bin/plain")
    Path(tmp_path, "bin/folder").mkdir()
    write(tmp_path, "/bin/orphan", "#!/no/such/interpreter\n").chmod(0o755)
    return tmp_path


def a_program(installed: Path, *wrappers: str, **changes: Any) -> ContainerSpec:
    fields = {"python": None, "venv": "", "wrappers": wrappers, **changes}
    return a_spec(installdir=str(installed / "installed"), **fields)


def test_commands_are_started_and_their_answers_or_what_they_lack_returned(installed: Path) -> None:
    spec = a_program(installed, "tool", "dumb", "t", wrapper_commands={"t": (f"{installed}/bin/tool", "-q")})
    assert check_commands(spec) == Started(versions={"tool": "tool 1.2.3", "t": "tool 1.2.3"}, container=True)
    assert check_commands(a_program(installed, "noisy", "tool")).versions["tool"] == "tool 1.2.3"
    started = check_commands(a_program(installed, "tool", "unlinked", "orphan"))
    assert [*started.versions] == ["tool"]
    assert [*started.broken] == ["unlinked", "orphan"]
    assert "libx.so.1" in started.broken["unlinked"]
    assert check_commands(a_program(installed, "gone", launch="run")) == Started()
    assert check_commands(a_program(installed, "gone", python=USR)) == Started()
    assert check_commands(a_program(installed, "nvidia-smi", gpu="nvidia")) == Started()
    assert check_commands(a_program(installed)) == Started()
    write(installed, "/my tools/tool 2", "#!/bin/sh\necho tool 2.0\n").chmod(0o755)
    spec = a_program(installed, "x", wrapper_commands={"x": (f"{installed}/my tools/tool 2",)})
    assert check_commands(spec).versions == {"x": "tool 2.0"}


@pytest.mark.parametrize("command", ["gone", "plain", "/nowhere/tool", "{top}/my tools/gone", "{top}/bin/folder"])
def test_a_missing_command_is_refused(installed: Path, command: str) -> None:
    spec = a_program(installed, "tool", "x", wrapper_commands={"x": (command.format(top=installed), "-q")})
    with pytest.raises(InstallError, match="lacks the commands of the wrappers x: correct wrappers"):
        check_commands(spec)


@pytest.mark.slow  # waits for the end of the time of a command
@pytest.mark.parametrize("text", ["trap '' TERM; while :; do sleep 1; done", "sleep 1000 & echo 1.0"])
def test_a_command_that_does_not_end_when_it_is_told_to_is_not_waited_for(installed: Path, text: str) -> None:
    write(installed, "/bin/stubborn", f"#!/bin/sh\n{text}\n").chmod(0o755)
    begun = time.monotonic()
    check_commands(a_program(installed, "stubborn"))
    assert time.monotonic() - begun < 240


def test_a_container_that_does_not_start_is_named(installed: Path) -> None:
    write(installed, "/installed/share/container.sh", "launch() { echo broken >&2; exit 255; }\n")
    with pytest.raises(InstallError, match="can't be checked: broken"):
        check_commands(a_program(installed, "tool"))


def test_of_hundreds_of_commands_the_first_ones_are_started_and_all_are_looked_for(installed: Path) -> None:
    wrapped = {f"t{number}": (f"{installed}/bin/t{number}",) for number in range(50)}
    for (path,) in wrapped.values():
        Path(path).symlink_to("tool")
    assert [*check_commands(a_program(installed, *wrapped, wrapper_commands=wrapped)).versions] == [
        f"t{n}" for n in range(20)
    ]
    Path(installed, "bin/t49").unlink()
    with pytest.raises(InstallError, match="the wrappers t49:"):
        check_commands(a_program(installed, *wrapped, wrapper_commands=wrapped))


def test_without_a_shell_commands_start_one_by_one(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sifmod.install.commands._SECONDS", 300)
    launch = f'launch() {{ [[ $1 != */sh ]] || exit 255; PATH={installed}/bin:$PATH exec "$@"; }}\n'
    write(installed, "/installed/share/container.sh", launch)
    spec = a_program(installed, "tool", "dumb", "unlinked", "orphan")
    with pytest.raises(InstallError):
        check_commands(spec)
    started = check_commands(spec, shell=False)
    assert started.versions == {"tool": "tool 1.2.3"}
    assert [*started.broken] == ["unlinked", "orphan"]
    with pytest.raises(InstallError, match=r"no command of .* starts in the container: .*libx\.so"):
        check_commands(a_program(installed, "unlinked", "gone"), shell=False)


def test_a_program_that_does_not_end_is_ended(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sifmod.install.commands._SECONDS", 1)
    write(installed, "/bin/daemon", "#!/bin/sh\nexec sleep 1000\n").chmod(0o755)
    assert check_commands(a_program(installed, "daemon"), shell=False) == Started()
