"""python -m bench: run the benchmarks as an ordinary user with the testbed's environment; `make bench` does so."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.data import Data
from bench.measure import BenchmarkError, Samples, alternate, bash
from bench.rows import GROWTHS, ROWS, lumi

TOOLS = {
    "kernel": "uname -r",
    "apptainer": "singularity --version | grep -o '[0-9.]*$'",
    "EasyBuild": "eb --version | grep -o '[0-9.]*' | head -n 1",
    "Lmod": "printf '%s' \"$LMOD_VERSION\"",
    "squashfs-tools": "mksquashfs -version | grep -o '[0-9.]*' | head -n 1",
    "squashfuse": "{ squashfuse_ll --help 2>&1 || true; } | grep -o -m 1 '[0-9.]*[0-9]' | head -n 1",
    "Slurm": "srun --version | grep -o '[0-9.]*'",
}


def _summary(samples: Sequence[Samples], figures: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    return [
        {
            "label": one.command.label,
            "script": one.command.script.replace(str(folder), "$BENCH"),
            "median": one.median(),
            "least": min(one.figures["seconds"]),
            "most": max(one.figures["seconds"]),
            "figures": {name: one.median(name) for name in figures if name in one.figures},
        }
        for one in samples
    ]


def _machine() -> str:
    model = re.search(r"(?m)^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{model[1] if model else platform.machine()}, {len(os.sched_getaffinity(0))} processors, {memory} GB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    keys = [*(row.__name__ for row in ROWS), lumi.__name__, *(growth.key for growth in GROWTHS)]
    parser.add_argument("--only", nargs="*", default=keys, choices=keys, help="these rows")
    parser.add_argument(
        "--lumi", type=Path, metavar="EASYCONFIG", help="one of LUMI's, from a checkout of LUMI-EasyBuild-containers"
    )
    parser.add_argument("--pairs", type=int, default=5, help="how often each command is run (default 5)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "sifmod-bench")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"), help="rows there that are not run stay")
    arguments = parser.parse_args()
    arguments.folder.mkdir(exist_ok=True)
    data = Data(arguments.folder.resolve())
    try:
        tools = {name: bash(script) for name, script in TOOLS.items()}
        today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
        run = {"date": today, "machine": _machine(), "tools": tools}
        source = Path(__file__).with_name("slowfs.c")
        bash(f"gcc -O2 -o {data.folder}/slowfs {source} $(pkg-config --cflags --libs fuse3)")
        for make in (*ROWS, *([lumi(arguments.lumi.resolve())] if arguments.lumi else [])):
            if make.__name__ in arguments.only:
                row = make(data)
                print(row.title, file=sys.stderr, flush=True)
                samples = alternate(row.commands, pairs=arguments.pairs, scratch=data.scratch)
                one = {"key": make.__name__, "title": row.title, "goal": row.goal, "pairs": arguments.pairs, "run": run}
                one["commands"] = _summary(samples, row.figures, data.folder)
                print("\n".join(report.table([one])[2:]), file=sys.stderr, flush=True)
                report.add("rows", one, arguments.output, order=keys)
                mounts = f"{data.scratch}/slow {data.root}/user-software"
                bash(f"for m in {mounts}; do fusermount3 -qu $m || true; done")
                bash(f"chmod -R u+w {data.scratch}; rm -rf {data.scratch}")
        for growth in GROWTHS:
            if growth.key in arguments.only:
                print(growth.title, file=sys.stderr, flush=True)
                points, pairs = [], min(3, arguments.pairs)
                for at, commands in growth.rows(data):
                    samples = alternate(commands, pairs=pairs, scratch=data.scratch)
                    points.append({"at": at, "commands": _summary(samples, growth.figures, data.folder)})
                one = {"key": growth.key, "title": growth.title, "unit": growth.unit, "pairs": pairs, "run": run}
                one["points"] = points
                report.add("growths", one, arguments.output, order=keys)
    except BenchmarkError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
