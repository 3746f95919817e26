"""Running commands of the host: the only place in sifmod that starts processes."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Callable, Optional, TypeVar, Union

from sifmod.errors import CommandError
from sifmod.text.size import size_text

Item = TypeVar("Item")

# Time limits in seconds: for a command that only queries something (GPU tools hang with their driver), for one that
# queries something in a container, whose image may have to be read from a busy parallel file system, and for one that
# also writes some thousand files there.
LOOK = 30
LOOK_IN_CONTAINER = 600
WRITE_FROM_CONTAINER = 3600

# How much of a failed command's output goes into a message.
_LAST_LINES = 15

# Seconds between asking a command to end and killing it.
_GRACE = 5

# Characters of output that a command may print, and how many are passed on at once, and in how many pieces at most.
_MOST_OUTPUT = 64 << 20
_PIECE = 64 << 10
_PIECES = 16

# Lines of a followed command that are kept: what went wrong is at the end, and a build may print for hours.
_KEPT_LINES = 1000

# Before a command that the kernel kills if its parent is killed: in a session of its own nobody else would end it.
_TIED = ("setpriv", "--pdeathsig", "KILL")

# Output of a command or an image must not control the terminal that shows a message about it.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    status: int  # its exit status; if negative, the signal that ended it
    stdout: str  # its standard output, and also its standard error if both were read together
    stderr: str

    @property
    def last_lines(self) -> str:
        """The end of its output for a message, standard error last; its exit status if it printed nothing."""
        lines = _CONTROL.sub("", f"{self.stdout}{self.stderr}").strip().splitlines()
        return "\n".join(lines[-_LAST_LINES:]) or f"exit status {self.status}"


def run(
    command: Sequence[Union[str, Path]],
    *,
    stdin: str = "",
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Path] = None,
    time_limit: Optional[float] = None,
) -> Result:
    """Run a command to its end and return its output; it does not read this process's standard input.

    There is no shell. After `time_limit` seconds the command is ended, with all processes that it has started.

    Raises:
        CommandError: the command can't be started, took too long, or printed too much.
    """
    # To end all its processes, a command needs its own session. Without a limit it stays in this one, where Ctrl-C, a
    # closed terminal and a batch system's kill reach it and all its processes.
    with _started(
        command,
        own_session=time_limit is not None,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
    ) as process:
        try:
            stdout, stderr = _exchange(process, stdin, time_limit)
        except subprocess.TimeoutExpired as error:
            raise CommandError(f"'{command[0]}' did not end within {time_limit:g} seconds") from error
        except _TooMuchError as error:
            raise CommandError(f"'{command[0]}' printed more than {size_text(_MOST_OUTPUT)}") from error
        return Result(process.returncode, stdout, stderr)


def follow(
    command: Sequence[Union[str, Path]],
    *,
    on_line: Callable[[str], object],
    on_silence: Callable[[], object],
    silence: float,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Path] = None,
    own_session: bool = False,
) -> Result:
    """Run a command that takes long, and pass on its output while it runs.

    Args:
        command: the command and its arguments, run without a shell.
        on_line: called with each line of standard output and standard error, without control characters; a very long
            line arrives in pieces.
        on_silence: called each time that the command printed nothing for `silence` seconds.
        silence: number of seconds before `on_silence` is called.
        env: its environment, `os.environ` by default.
        cwd: folder to run it in, the current one by default.
        own_session: whether to end all processes that it has started, if it is ended: for one that does not itself. It
            is also killed if this process is.

    Returns:
        Its exit status, and its last lines as standard output.

    Raises:
        CommandError: the command can't be started.
    """
    lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
    if own_session and ask([*_TIED, "true"])[0] == 0:  # since util-linux 2.33
        command = [*_TIED, *command]
    with _started(
        command, own_session=own_session, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=env, cwd=cwd
    ) as process:
        arriving: queue.Queue[Optional[str]] = queue.Queue(maxsize=_PIECES)
        ended = threading.Event()
        threading.Thread(target=_read_lines, args=(process.stdout, arriving, ended), daemon=True).start()
        try:
            while True:
                try:
                    line = arriving.get(timeout=silence)
                except queue.Empty:
                    on_silence()
                    continue
                if line is None:
                    break
                lines.append(line)
                on_line(line)
        finally:
            ended.set()
        process.wait()
    return Result(process.returncode, "\n".join(lines), "")


def ask(command: list[str], *, directory: Optional[Path] = None) -> tuple[int, str]:
    """Return exit status and output of a command; standard output and standard error, because tools use either.

    If the command can't be started, or takes too long, return exit status 1 and the reason as its output.
    """
    try:
        done = run(command, cwd=directory, time_limit=LOOK)
    except CommandError as error:
        return 1, str(error)
    return done.status, f"{done.stdout}{done.stderr}".strip()


def work_of_children() -> Optional[int]:
    """Return how many bytes the running descendants of this process have read and written; None if that can't be known.

    It tells a command that waits from one that works without printing anything.
    """
    total, processes = 0, [str(os.getpid())]
    try:
        while processes:
            tasks = Path("/proc", processes.pop(), "task")
            for number in (number for task in tasks.iterdir() for number in (task / "children").read_text().split()):
                processes.append(number)
                lines = Path("/proc", number, "io").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))
    except (OSError, ValueError):  # one has ended meanwhile, or the kernel does not say
        return None
    return total


def first_on_path(commands: Iterable[str]) -> Optional[Path]:
    """Return the path of the first of some commands that is on PATH; None if none is."""
    path = next(filter(None, map(shutil.which, commands)), None)
    return Path(path) if path else None


class CommandGroup:
    """Commands of several threads that are ended together: an exception in one thread does not reach the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own_session: dict[subprocess.Popen[str], bool] = {}
        self._has_ended = False

    def join(self) -> None:
        """Add the commands that this thread starts from now on."""
        _THREAD.group = self

    def end(self) -> None:
        """End the commands, and refuse to start others."""
        with self._lock:
            self._has_ended = True
            running = dict(self._own_session)
        for process, own_session in running.items():
            _send(signal.SIGTERM, process, whole_group=own_session)
        for process, own_session in running.items():
            _end(process, whole_group=own_session)

    def start(self, command: Sequence[str], *, own_session: bool, **options: Any) -> subprocess.Popen[str]:
        """Start a command, which belongs to the group until `forget`."""
        with self._lock:
            if self._has_ended:
                raise CommandError(f"'{command[0]}' was not started: sifmod is about to end")
            process = subprocess.Popen(command, start_new_session=own_session, **options)  # noqa: S603 - no shell
            self._own_session[process] = own_session
            return process

    def forget(self, process: subprocess.Popen[str]) -> None:
        """Leave a command out, which has ended."""
        with self._lock:
            del self._own_session[process]


_THREAD = threading.local()


@contextlib.contextmanager
def _started(
    command: Sequence[Union[str, Path]], *, own_session: bool, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start a command, and end it if the block raises an exception."""
    group: CommandGroup = getattr(_THREAD, "group", None) or CommandGroup()
    words = [str(word) for word in command]
    options.update(stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
    try:
        process = group.start(words, own_session=own_session, **options)
    except (OSError, ValueError) as error:  # ValueError: a null byte in an argument
        if isinstance(error, FileNotFoundError) and "/" not in words[0]:
            raise CommandError(f"there is no command {words[0]} on PATH") from error
        reason = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"'{words[0]}' can't be started: {reason}") from error
    try:
        yield process
    except BaseException:
        _end(process, whole_group=own_session)
        raise
    finally:
        group.forget(process)


def _end(process: subprocess.Popen[str], *, whole_group: bool) -> None:
    """Ask a command to end, and kill it if it does not; with `whole_group`, all processes of its group."""
    _send(signal.SIGTERM, process, whole_group=whole_group)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    finally:
        _send(signal.SIGKILL, process, whole_group=whole_group)
        process.wait()


def _send(number: signal.Signals, process: subprocess.Popen[str], *, whole_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if whole_group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


class _TooMuchError(Exception):
    """A command printed more than `_MOST_OUTPUT`."""


def _exchange(process: subprocess.Popen[str], stdin: str, time_limit: Optional[float]) -> tuple[str, str]:
    """Write a command's input, and return its standard output and standard error when it has ended.

    `Popen.communicate` would keep all that a command prints, and a command in a hostile image may print without end.
    """
    deadline = None if time_limit is None else time.monotonic() + time_limit
    arriving: queue.Queue[tuple[int, str]] = queue.Queue(maxsize=_PIECES)
    ended = threading.Event()
    for number, stream in enumerate((process.stdout, process.stderr)):
        threading.Thread(target=_read_pieces, args=(stream, number, arriving, ended), daemon=True).start()
    if process.stdin:
        threading.Thread(target=_write, args=(process.stdin, stdin), daemon=True).start()
    output: tuple[list[str], list[str]] = ([], [])
    size, open_streams = 0, len(output)
    try:
        while open_streams:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0)
            try:
                number, piece = arriving.get(timeout=remaining)
            except queue.Empty:
                raise subprocess.TimeoutExpired(process.args, time_limit or 0) from None
            open_streams -= not piece
            size += len(piece)
            if size > _MOST_OUTPUT:
                raise _TooMuchError
            output[number].append(piece)
        process.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
    finally:
        ended.set()
    return "".join(output[0]), "".join(output[1])


def _read_pieces(stream: IO[str], number: int, arriving: queue.Queue[tuple[int, str]], ended: threading.Event) -> None:
    """Pass on the output of a command in pieces, an empty one last; when nobody waits for it, read no more."""
    with stream:
        piece = " "
        while piece:
            piece = stream.read(_PIECE)
            if not _passed_on((number, piece), arriving, ended):
                return


def _read_lines(stream: IO[str], arriving: queue.Queue[Optional[str]], ended: threading.Event) -> None:
    """Pass on the lines of a command, None last; when nobody waits for them, read no more."""
    # closed here, not by the other thread, which would wait for processes that outlive the command and may still print
    with stream:
        while line := stream.readline(_PIECE):
            if not _passed_on(_CONTROL.sub("", line.rstrip("\n")), arriving, ended):
                return
    _passed_on(None, arriving, ended)


def _passed_on(item: Item, arriving: queue.Queue[Item], ended: threading.Event) -> bool:
    """Put an item into a queue that may be full; return False if nobody waits for it any more."""
    while not ended.is_set():
        with contextlib.suppress(queue.Full):
            arriving.put(item, timeout=1)
            return True
    return False


def _write(stream: IO[str], text: str) -> None:
    # the command may end without having read its input; closing flushes it
    with contextlib.suppress(OSError), stream:
        stream.write(text)
