"""Run commands in alternation, and note what each took."""

from __future__ import annotations

import os
import statistics
import subprocess
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
    """Run a command once; its time in seconds, and bytes read and written.

    Raises BenchmarkError if it fails.
    """
    if command.before:
        bash(command.before)
    words = scratch / "stderr"
    done = subprocess.run(
        ["bash", "-c", _TIMED, "measure", command.script, str(words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if done.returncode:
        raise BenchmarkError(f"{command.script}\n{words.read_text()[-2000:]}{done.stderr}")
    microseconds, read, written = (int(word) for word in done.stdout.split())
    figures = {"seconds": microseconds / 1e6 / command.times, "read": float(read), "written": float(written)}
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
