import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sifmod.errors import CommandError
from sifmod.host.command import ask, first_on_path, follow, run


def is_running(pid_file: Path) -> bool:
    """Return whether the process whose number is in a file is there, and not only waited for by its parent."""
    try:
        state = Path("/proc", pid_file.read_text().strip(), "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def ends(pid_file: Path) -> bool:
    deadline = time.monotonic() + 240
    while is_running(pid_file) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid_file)


def test_words_input_environment_output_and_status_are_passed() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert run(["printf", "%s|", "a b", "", "$(touch x)", "*"]).stdout == "a b||$(touch x)|*|"
    assert run(["cat"], stdin="é\n").stdout == "é\n"
    assert run(["cat"], time_limit=240).stdout == ""
    assert run(["true"], stdin="x" * 1_000_000).status == 0
    assert run(["/usr/bin/env"], env={"A": "b"}).stdout == "A=b\n"
    assert run(["printf", r"a\377b"]).stdout == "a\ufffdb"
    done = run(["sh", "-c", "cat; seq 1000000 >&2"], stdin="é" * 5_000_000)
    assert (len(done.stdout), len(done.stderr)) == (5_000_000, 6_888_896)


def test_the_first_command_on_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("one", "two"):
        (tmp_path / name).touch(0o755)
    assert first_on_path(["none", "two", "one"]) == tmp_path / "two"
    assert first_on_path(["none"]) is None


@pytest.mark.timeout(300)  # it would fill the memory
@pytest.mark.parametrize("stream", [1, 2])
def test_a_command_that_prints_without_end_is_ended(tmp_path: Path, stream: int) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo $$ >'{pid_file}'; timeout 240 cat /dev/zero >&{stream} | cat"
    with pytest.raises(CommandError, match=r"'sh' printed more than 67\.1 MB"):
        run(["sh", "-c", script], time_limit=240)
    assert ends(pid_file)


def test_the_last_lines_are_those_of_standard_error_or_tell_the_status() -> None:
    done = run(["sh", "-c", r"seq 30; printf '\033[31mred\033[0m \033]0;title\007\n' >&2; exit 1"])
    assert done.last_lines.splitlines() == [*map(str, range(17, 31)), "red ]0;title"]
    assert run(["sh", "-c", "exit 4"]).last_lines == "exit status 4"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-command", "there is no command no-such-command on PATH"),
        ("/no/such", "'/no/such' can't be started: No such file"),
        ("/dev/null", "'/dev/null' can't be started: Permission denied"),
        ("a\0b", "null byte"),
    ],
)
def test_a_command_that_can_not_be_started_is_named(command: str, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        run([command])
    with pytest.raises(CommandError, match=reason):
        follow([command], on_line=print, on_silence=print, silence=1)
    status, said = ask([command])
    assert status == 1
    assert reason in said


def test_after_the_time_limit_the_command_s_children_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sifmod.host.command._GRACE", 0.5)
    script = f"trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >{tmp_path}/child; while :; do sleep 0.1; done' & wait"
    before = time.monotonic()
    with pytest.raises(CommandError, match=r"'sh' did not end within 0\.5 seconds"):
        run(["sh", "-c", script], time_limit=0.5)
    assert time.monotonic() - before < 240
    assert ends(tmp_path / "child")


def test_a_command_without_a_limit_stays_in_the_session_of_its_caller() -> None:
    script = "read -r _ _ _ _ _ session _ </proc/$$/stat; echo $session"  # proc_pid_stat(5)
    assert int(run(["sh", "-c", script]).stdout) == os.getsid(0)
    assert int(run(["sh", "-c", script], time_limit=240).stdout) != os.getsid(0)


def interrupt(_line: str) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_command_is_ended(tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid; echo begun; exec sleep 600"
    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", script], on_line=interrupt, on_silence=print, silence=10)
    assert ends(tmp_path / "pid")


def test_what_outlives_an_interrupted_command_is_not_waited_for(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! >{tmp_path}/pid; echo begun; wait"
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", script], on_line=interrupt, on_silence=print, silence=10)
    assert time.monotonic() - before < 240
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_all_that_a_command_in_its_own_session_has_started_is_ended(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! >{tmp_path}/pid; echo begun; wait"
    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", script], on_line=interrupt, on_silence=print, silence=10, own_session=True)
    assert ends(tmp_path / "pid")


def test_a_command_in_its_own_session_does_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid; echo begun; exec sleep 600"
    program = (
        "import os, signal\nfrom sifmod.host.command import follow\n"
        f"follow(['sh', '-c', {script!r}], on_line=lambda _line: os.kill(os.getpid(), signal.SIGKILL),"
        " on_silence=print, silence=10, own_session=True)"
    )
    done = run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.status == -signal.SIGKILL
    assert ends(tmp_path / "pid")


def test_lines_are_passed_on_while_the_command_runs(tmp_path: Path) -> None:
    arrived: list[str] = []

    def on_line(line: str) -> None:
        arrived.append(line)
        (tmp_path / "go").touch()

    script = r"printf '\033[31mone\033[0m\n'; while [ ! -e go ]; do sleep 0.02; done; echo two >&2; kill -9 $$"
    done = follow(["sh", "-c", script], on_line=on_line, on_silence=print, silence=10, cwd=tmp_path)
    assert arrived == ["one", "two"]
    assert (done.status, done.stdout) == (-signal.SIGKILL, "one\ntwo")


@pytest.mark.timeout(300)
def test_of_a_command_that_prints_without_end_the_last_lines_are_kept() -> None:
    longest = 0

    def on_line(line: str) -> None:
        nonlocal longest
        longest = max(longest, len(line))

    script = "seq 200000; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last"
    done = follow(["sh", "-c", script], on_line=on_line, on_silence=print, silence=10)
    assert done.stdout.endswith("x\nlast")
    assert len(done.stdout.splitlines()) <= 1000
    assert longest <= 1 << 16


@pytest.mark.timeout(300)
def test_output_that_arrives_faster_than_it_is_read_does_not_pile_up(tmp_path: Path) -> None:
    def on_line(_line: str) -> None:
        time.sleep(0.3)
        written.append(int((tmp_path / "count").read_text() or 0))
        raise KeyboardInterrupt

    written: list[int] = []
    script = f"for i in $(seq 300); do echo $i >{tmp_path}/count; head -c 65535 /dev/zero; echo; done"
    with pytest.raises(KeyboardInterrupt):
        follow(["sh", "-c", script], on_line=on_line, on_silence=print, silence=10)
    assert written[0] < 40


def test_silence_is_told_again_and_again(tmp_path: Path) -> None:
    told: list[int] = []

    def on_silence() -> None:
        told.append(1)
        if len(told) == 3:
            (tmp_path / "go").touch()

    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    assert follow(["sh", "-c", script], on_line=print, on_silence=on_silence, silence=0.1).status == 0
    assert len(told) >= 3
