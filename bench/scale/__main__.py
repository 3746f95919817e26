"""python -m bench.scale: how long many nodes take to start a program from a parallel file system, by simulation."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from bench.scale import report
from bench.scale.parameters import Cluster, ParameterError, measured, with_changes

_EPILOG = """\
examples:
  python -m bench.scale                                        # every way, 1 to 10,000 nodes with 8 ranks each
  python -m bench.scale --nodes 500 1000 --ranks 64            # other sizes
  python -m bench.scale --times 10                             # a program of ten times the size
  python -m bench.scale --way packed --set target_bandwidth=2e9 --set targets=16
  python -m bench.scale --parameters                           # every parameter, its value, meaning and source
  python -m bench.scale --compare                              # against the slow file system that make bench measured
  python -m bench.scale --write docs/benchmarks                # scale.md and scale.svg, from results.json there
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=list(report.NODES), help="numbers of nodes")
    parser.add_argument("--ranks", type=int, default=report.RANKS, help="ranks on each node (default 8)")
    parser.add_argument("--times", type=int, default=1, help="as if it read so many times as much (default 1)")
    parser.add_argument("--way", action="append", metavar="NAME", help="only this way; can be given several times")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PARAMETER=VALUE", help="another value for a parameter"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--parameters", action="store_true", help="print the parameters instead")
    other.add_argument("--compare", action="store_true", help="compare with the measured slow file system instead")
    other.add_argument("--write", type=Path, metavar="FOLDER", help="write the page and the pictures instead")
    return parser


def _print(lines: Sequence[str], data: Any, *, as_json: bool) -> None:
    print(json.dumps(data, indent=1) if as_json else "\n".join(lines))


def _show_parameters(cluster: Cluster, *, as_json: bool) -> None:
    known = [
        {"name": one.name, "value": getattr(cluster, one.name), **one.metadata} for one in dataclasses.fields(cluster)
    ]
    _print(
        [f"{one['name']}={one['value']:g}: {one['meaning']} ({one['source']})" for one in known], known, as_json=as_json
    )


def _show_comparison(*, as_json: bool) -> None:
    found = report.compared()
    _print(
        [
            f"{one.label}, {one.clients} clients: {one.measured:.2f} s measured, {one.modelled:.2f} s by the model"
            for one in found
        ],
        [{**dataclasses.asdict(one), "ratio": one.ratio} for one in found],
        as_json=as_json,
    )


def _show_curves(arguments: argparse.Namespace, cluster: Cluster) -> None:
    ways = measured()
    for name in arguments.way or ():
        if name not in ways:
            raise ParameterError(f"there is no way {name!r}: {', '.join(ways)}")
    if arguments.times < 1:
        raise ParameterError(f"--times is {arguments.times}: it must be 1 or more")
    chosen = {name: way.bigger(arguments.times) for name, way in ways.items() if name in (arguments.way or ways)}
    curves = report.curves(chosen, cluster, nodes=sorted(arguments.nodes), ranks=arguments.ranks)
    data = [
        {
            "way": one.label,
            "knee": one.knee if math.isfinite(one.knee) else None,
            "points": [
                {"nodes": nodes, "ranks": one.ranks, **dataclasses.asdict(outcome)}
                for nodes, outcome in zip(one.nodes, one.outcomes)
            ],
        }
        for one in curves
    ]
    _print(report.table(curves), data, as_json=arguments.json)


def main(words: Optional[Sequence[str]] = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        changes = [change.partition("=") for change in arguments.set]
        cluster = with_changes({name: value for name, _, value in changes})
        if arguments.parameters:
            _show_parameters(cluster, as_json=arguments.json)
        elif arguments.compare:
            _show_comparison(as_json=arguments.json)
        elif arguments.write:
            report.write(arguments.write)
        else:
            _show_curves(arguments, cluster)
    except ParameterError as error:
        print(f"bench.scale: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bench.scale: '{error.filename}' can't be read or written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
