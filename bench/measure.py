"""Run commands in alternation, and note what each took."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Prints the time and the bytes that the script, its children included, has read and written (as proc(5) counts them).
_TIMED = """
start=$EPOCHREALTIME
bash -c "$1" >/dev/null 2>"$2"
status=$?
end=$EPOCHREALTIME
while read -r name value; do
    if [[ $name == rchar: ]]; then read_bytes=$value; elif [[ $name == wchar: ]]; then written=$value; fi
done </proc/$$/io
echo "$(((${end/./} - ${start/./}))) $read_bytes $written"
exit $status
"""


class BenchmarkError(Exception):
    """A command of a benchmark failed: its words are the message."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One way to do something.

    script: bash, timed. before: bash, run before each time and not timed. after: returns further figures of one run.
    times: how often the script does it, by which the time is divided.
    """

    label: str
    script: str
    before: str = ""
    after: Callable[[], Mapping[str, float]] = dict
    times: int = 1


@dataclass
class Samples:
    """What the runs of one command took: seconds each, bytes read and written each, and further figures."""

    command: Command
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **figures: float) -> None:
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def median(self, name: str = "seconds") -> float:
        return statistics.median(self.figures[name])


def bash(script: str) -> str:
    """Run a script that is not measured; return what it prints.

    Raises BenchmarkError if it fails.
    """
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{script}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def run_once(command: Command, scratch: Path) -> dict[str, float]:
    """Run a command once; its seconds, bytes read and written, processor time, and the most memory of a process.

    The last two are of the command and what it has waited for, so not of what mounts files for a container.

    Raises BenchmarkError if it fails.
    """
    if command.before:
        bash(command.before)
    words = scratch / "stderr"
    with tempfile.TemporaryFile("w+") as printed:
        started = subprocess.Popen(
            ["bash", "-c", _TIMED, "measure", command.script, str(words)],
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        # subprocess would not tell what it took
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        said = printed.read()
    if started.returncode:
        raise BenchmarkError(f"{command.script}\n{words.read_text()[-2000:]}{said}")
    microseconds, read, written = (int(word) for word in said.split())
    figures = {"seconds": microseconds / 1e6 / command.times, "read": float(read), "written": float(written)}
    figures["processor time"] = (usage.ru_utime + usage.ru_stime) / command.times
    figures["memory"] = float(usage.ru_maxrss << 10)
    return {**figures, **command.after()}


def alternate(commands: Sequence[Command], *, pairs: int, scratch: Path) -> list[Samples]:
    """Run the commands in turn, `pairs` times each, after one round that does not count."""
    samples = [Samples(command) for command in commands]
    for number in range(pairs + 1):
        for one in samples:
            figures = run_once(one.command, scratch)
            if number:
                one.add(**figures)
    return samples
