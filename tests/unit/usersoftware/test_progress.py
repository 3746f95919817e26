"""How commands on the host say how far long work is. The stand-in for a packer goes on when that was seen."""

import contextlib
import os
import pty
import subprocess
from pathlib import Path

import pytest

from sifmod.resources import data_path

COMMAND = data_path("wrappers") / "share/command.sh"
# a packer that has read 10 MiB, waits until somebody reads its pipe, and fails
SLOW = 'read -rN 10485760 -d "" <"$1"; : >"$2"; echo said; exit 3'
SIZE = "20971520"
# a minute is over at once: what waits for it waits for the pipe's reader
AT_ONCE = 'read() { if [[ ${2-} == -t ]]; then set -- -r -t 0.2 "${@:4}"; fi; builtin read "$@"; }\n'
CALL = 'said=$(with_progress packing "$@") || status=$?'


@pytest.fixture
def slow(tmp_path: Path) -> list[str]:
    """Return the command of a packer that goes on when its pipe, the last word, is opened."""
    (tmp_path / "source").write_bytes(b"x" * 10485760)
    os.mkfifo(tmp_path / "pipe")
    return ["bash", "-c", SLOW, "packer", str(tmp_path / "source"), str(tmp_path / "pipe")]


def started(errors: int, size: str, command: list[str], before: str = "") -> subprocess.Popen[bytes]:
    lines = ("set -euo pipefail", 'source "$0"', before, "status=0", CALL, 'echo "$said"', 'exit "$status"')
    script = "\n".join(lines)
    words: list[str | Path] = ["bash", "-c", script, COMMAND, size, *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)


def seen(descriptor: int, wanted: str) -> str:
    """Read until there is a text, or the other side is closed."""
    found = b""
    with contextlib.suppress(OSError):  # Linux says EIO once the other side of a terminal is closed
        while wanted.encode() not in found and (part := os.read(descriptor, 65536)):
            found += part
    return found.decode()


def test_on_a_terminal_a_line_changes_and_is_taken_away(slow: list[str]) -> None:
    ours, terminal = pty.openpty()
    done = started(terminal, SIZE, slow)
    os.close(terminal)
    wanted = "\r\x1b[Kpacking: 10 of 20 MiB, 0:"
    assert wanted in seen(ours, wanted)
    Path(slow[-1]).read_bytes()
    assert done.communicate()[0] == b"said\n"
    assert done.returncode == 3
    assert seen(ours, "never").endswith("\r\x1b[K")
    os.close(ours)


@pytest.mark.parametrize(("size", "said"), [(SIZE, "packing: 10 of 20 MiB, 0:"), ("0", "packing: 0:")])
def test_elsewhere_there_are_lines(slow: list[str], size: str, said: str) -> None:
    ours, theirs = os.pipe()
    done = started(theirs, size, slow, AT_ONCE)
    os.close(theirs)
    assert said in seen(ours, said)
    Path(slow[-1]).read_bytes()
    assert done.communicate()[0] == b"said\n"
    assert done.returncode == 3
    assert "\x1b" not in seen(ours, "never")
    os.close(ours)


def test_short_work_has_no_line() -> None:
    done = started(subprocess.PIPE, SIZE, ["sh", "-c", "echo said; exit 1"])
    assert (*done.communicate(), done.returncode) == (b"said\n", b"", 1)


def test_a_killed_command_leaves_nobody_who_goes_on_telling(slow: list[str]) -> None:
    ours, theirs = os.pipe()
    done = started(theirs, SIZE, slow, AT_ONCE)
    os.close(theirs)
    assert "packing: " in seen(ours, "packing: ")
    done.kill()
    Path(slow[-1]).read_bytes()
    done.communicate()
    seen(ours, "never")  # ends when nobody holds the other side
    os.close(ours)
