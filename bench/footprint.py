"""What containers cost a node while programs run in them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.measure import BenchmarkError


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    words: str

    def has(self, pattern: str) -> bool:
        return re.search(pattern, self.words) is not None


def footprint(start: str, holder: Path, ranks: int) -> Mapping[str, float]:
    """Return what is there beside the programs: memory in MB, daemons of FUSE, and mounts.

    Args:
        start: bash that starts in each rank the command that is appended to it.
        holder: the program that holds a shared container.
        ranks: how many ranks there are.

    Raises:
        BenchmarkError: they did not start within two minutes.
    """
    # the number tells these programs from others
    seconds = f"{600 + time.time() % 100:.6f}"
    words = ["bash", "-c", f"{start} sleep {seconds}"]
    step = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    program = rf"^\S*sleep {seconds}$"
    try:
        end = time.monotonic() + 120
        while True:
            found = _family(program, f"{holder} ")
            programs = [process for process in found if process.has(program)]
            if len(programs) == ranks:
                break
            if time.monotonic() > end:
                raise BenchmarkError(f"{start}: {len(programs)} of {ranks} ranks started in two minutes")
            time.sleep(0.2)
        others = [process for process in found if process not in programs]
        namespaces = {Path(f"/proc/{process.pid}/ns/mnt").readlink(): process for process in programs}
        return {
            "MB beside the programs": sum(_memory(process) for process in others) / 1e6,
            "FUSE daemons": float(sum(process.has("^[^ ]*squashfuse") for process in others)),
            "mounts": float(sum(_mounts(process) for process in namespaces.values())),
        }
    finally:
        os.killpg(step.pid, signal.SIGINT)
        os.killpg(step.pid, signal.SIGTERM)
        step.wait()


def _family(program: str, holder: str) -> list[_Process]:
    """Return the programs, the holders, and the runtimes of both with all that these have started."""
    processes = list(filter(None, map(_process, Path("/proc").glob("[0-9]*"))))
    by_pid = {process.pid: process for process in processes}
    found = {process.pid for process in processes if process.has(program) or process.has(re.escape(holder))}
    found |= {by_pid[pid].parent for pid in found if by_pid[pid].parent in by_pid}
    found = {pid for pid in found if by_pid[pid].has(f"{program}|{re.escape(holder)}|runtime parent")}
    for _ in range(3):
        found |= {process.pid for process in processes if process.parent in found}
    return [by_pid[pid] for pid in found]


def _process(folder: Path) -> _Process | None:
    try:
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        parent = (folder / "stat").read_text().rpartition(") ")[2].split()[1]
    except OSError:  # it has ended
        return None
    return _Process(int(folder.name), int(parent), words)


def _memory(process: _Process) -> int:
    """Return its memory in bytes; what it shares with others counts in part."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return int(re.search(r"(?m)^Pss: +(\d+)", text)[1]) * 1024  # type: ignore[index] # the kernel always writes it


def _mounts(process: _Process) -> int:
    return len(Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines())
