"""What the model says, as the page and the pictures of docs/benchmarks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.scale.model import Outcome, start
from bench.scale.parameters import RESULTS, Cluster, Demand, ParameterError, Way, measured

NODES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
RANKS = 8
BIGGER = 10
STRIPED, STRIPED_NODES, STRIPES = "packed, shared container", (100, 1000, 10_000), (1, 2, 4, 8, 16, 32)

# of the slow file system in the growth "grow-clients" of `make bench`
SLOW_METADATA_SECONDS, SLOW_METADATA_SERVERS = 0.001, 4
SLOW_READ_SECONDS, SLOW_TARGETS = 0.0005, 2


@dataclass(frozen=True)
class Curve:
    """What a way takes at each number of nodes."""

    label: str
    way: Way
    cluster: Cluster
    ranks: int
    nodes: Sequence[int]
    outcomes: Sequence[Outcome]

    @property
    def seconds(self) -> list[float]:
        return [one.seconds for one in self.outcomes]

    @property
    def knee(self) -> float:
        """The number of nodes at which a start takes twice as long as on the fewest; infinite if none does."""
        limit = 2 * self.seconds[0]
        points = list(zip(self.nodes, self.seconds))
        for (fewer, below), (more, above) in zip(points, points[1:]):
            if above >= limit:
                part = math.log(limit / below) / math.log(above / below)
                return float(fewer * (more / fewer) ** part)
        return math.inf


def curve(label: str, way: Way, cluster: Cluster, *, nodes: Sequence[int] = NODES, ranks: int = RANKS) -> Curve:
    outcomes = [start(cluster, way, nodes=count, ranks=ranks) for count in nodes]
    return Curve(label=label, way=way, cluster=cluster, ranks=ranks, nodes=nodes, outcomes=outcomes)


def curves(
    ways: Mapping[str, Way], cluster: Cluster, *, nodes: Sequence[int] = NODES, ranks: int = RANKS
) -> list[Curve]:
    """Return a curve of each way, and for files with the site's stripes one on a single target and one on all."""
    found = []
    for way in ways.values():
        layouts = (1, cluster.targets) if way.striped and not way.broadcast else (cluster.stripes,)
        for stripes in layouts:
            label = way.name if len(layouts) == 1 else f"{way.name}, {stripes} target{'s' if stripes > 1 else ''}"
            found.append(curve(label, way, replace(cluster, stripes=stripes), nodes=nodes, ranks=ranks))
    return found


@dataclass(frozen=True)
class Compared:
    """What so many clients of the slow file system took, and what the model says of them."""

    label: str
    clients: int
    measured: float
    modelled: float

    @property
    def ratio(self) -> float:
        return self.modelled / self.measured


def compared(results: Path = RESULTS) -> list[Compared]:
    """Hold the model against the slow file system of the testbed, as `make bench` measured it.

    What one client takes beside the servers' time (starting, FUSE, the replaying program) is taken from its own run,
    and spread over its operations: the runs with more clients are what is compared. Each number of clients ran several
    times. The fastest run counts, as other work on the machine, which has fewer processors than clients, only delays.

    Raises ParameterError if that was not measured.
    """
    growths = {one["key"]: one for one in json.loads(results.read_text())["growths"]}
    if "grow-clients" not in growths:
        raise ParameterError(f"{results} has no growth 'grow-clients': run make bench BENCH_ARGS='--only grow-clients'")
    points = growths["grow-clients"]["points"]
    found = []
    for number, alone in enumerate(points[0]["commands"]):
        cluster, way = _slow(alone)
        for point in points:
            outcome = start(cluster, way, nodes=int(point["at"]), ranks=1)
            took = point["commands"][number]["least"]
            found.append(
                Compared(label=alone["label"], clients=int(point["at"]), measured=took, modelled=outcome.seconds)
            )
    return found


def _slow(alone: Mapping[str, Any]) -> tuple[Cluster, Way]:
    """Return the slow file system, and what one client asks of it."""
    figures = alone["figures"]
    node = Demand(
        metadata=int(figures["metadata operations"]), reads=int(figures["reads"]), bytes=int(figures["bytes"])
    )
    served = node.metadata * SLOW_METADATA_SECONDS + node.reads * SLOW_READ_SECONDS
    overhead = max(0, alone["least"] - served) / (node.metadata + node.reads)
    cluster = Cluster(
        metadata_rate=SLOW_METADATA_SERVERS / SLOW_METADATA_SECONDS,
        metadata_seconds=SLOW_METADATA_SECONDS + overhead,
        metadata_latency=overhead,
        targets=SLOW_TARGETS,
        stripes=SLOW_TARGETS,
        target_bandwidth=node.bytes / node.reads / SLOW_READ_SECONDS,
        node_bandwidth=1e15,
        read_latency=overhead,
    )
    return cluster, Way(name=alone["label"], node=node)


@dataclass(frozen=True)
class Figures:
    """What the page and the pictures show: by_stripes has seconds for each of STRIPES, by the number of nodes."""

    ways: Sequence[Way]
    curves: Sequence[Curve]
    bigger: Sequence[Curve]
    by_stripes: Mapping[int, Sequence[float]]
    compared: Sequence[Compared]


def figures(results: Path = RESULTS) -> Figures:
    """Return what the model says of what was measured.

    Raises ParameterError if something was not measured.
    """
    cluster, ways = Cluster(), measured(results)
    clusters = [replace(cluster, stripes=stripes) for stripes in STRIPES]
    return Figures(
        ways=list(ways.values()),
        curves=curves(ways, cluster),
        bigger=curves({name: way.bigger(BIGGER) for name, way in ways.items()}, cluster),
        by_stripes={
            nodes: [start(one, ways[STRIPED], nodes=nodes, ranks=RANKS).seconds for one in clusters]
            for nodes in STRIPED_NODES
        },
        compared=compared(results),
    )


def page(shown: Figures) -> str:
    """Return the page of docs/benchmarks."""
    lines = [
        "# Scale",
        "",
        "Written by `python -m bench.scale --write docs/benchmarks`; [what it means](../explanation/scale.md).",
        "",
        f"Seconds until the last of {RANKS} ranks on each node has done `import torch`:",
        "",
        *table(shown.curves),
        "",
        "The knee is the number of nodes at which a start takes twice as long as on one.",
        "",
        f"The same for a program that reads {BIGGER} times as much, from an image of {BIGGER} times the size:",
        "",
        *table(shown.bigger),
        "",
        f"By the number of targets over which image and packed file are spread ({STRIPED}):",
        "",
        "| nodes | " + " | ".join(map(str, STRIPES)) + " |",
        "|---" * (len(STRIPES) + 1) + "|",
        *(f"| {nodes:,} | " + " | ".join(map(_seconds, took)) + " |" for nodes, took in shown.by_stripes.items()),
        "",
        "![seconds by the number of nodes, and by the number of targets](scale.svg)",
        "",
        "## What a start asks of the file system",
        "",
        "As the row `starts` of [the results](results.md) has it.",
        "",
        "| way | first rank of a node | each further rank | seconds of its own | sent to each node |",
        "|---|---|---|---|---|",
        *(_way_line(way) for way in shown.ways),
        "",
        "## Against the slow file system",
        "",
        f"With {SLOW_METADATA_SERVERS} metadata servers of {SLOW_METADATA_SECONDS * 1000:g} ms and {SLOW_TARGETS} "
        f"targets of {SLOW_READ_SECONDS * 1000:g} ms a read; a client's overhead is that of the first one alone. "
        "The fastest of several runs.",
        "",
        "| operations of | clients | measured | model | model / measured |",
        "|---|---|---|---|---|",
        *(
            f"| {one.label} | {one.clients} | {one.measured:.2f} s | {one.modelled:.2f} s | {one.ratio:.2f} |"
            for one in shown.compared
        ),
        "",
        "`python -m bench.scale --parameters` prints the parameters of the model, each with its value and its source.",
    ]
    return "\n".join(lines) + "\n"


def table(drawn: Sequence[Curve]) -> list[str]:
    """Return a Markdown table of seconds: a column for each number of nodes."""
    nodes = drawn[0].nodes
    lines = ["| way | " + " | ".join(f"{count:,}" for count in nodes) + " | knee |", "|---" * (len(nodes) + 2) + "|"]
    for one in drawn:
        knee = f"{one.knee:,.2g}" if one.knee < 10 else f"{float(f'{one.knee:.2g}'):,.0f}"
        cells = " | ".join(_seconds(seconds) for seconds in one.seconds)
        lines.append(f"| {one.label} | {cells} | {knee if math.isfinite(one.knee) else 'none'} |")
    return lines


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _way_line(way: Way) -> str:
    def words(demand: Demand) -> str:
        if demand == Demand():
            return "nothing"
        return f"{demand.metadata:,} metadata operations, {demand.reads:,} reads, {demand.bytes / 1e6:,.1f} MB"

    sent = f"{way.broadcast / 1e6:,.0f} MB" if way.broadcast else ""
    return f"| {way.name} | {words(way.node)} | {words(way.rank)} | {way.seconds:.1f} | {sent} |"


def write(folder: Path) -> None:
    """Write scale.md and scale.svg into the folder, from its results.json."""
    shown = figures(folder / "results.json")
    (folder / "scale.md").write_text(page(shown))
    draw(shown, folder / "scale.svg")


def draw(shown: Figures, path: Path) -> None:
    """Write the pictures."""
    # matplotlib is only where benchmarks are run
    from matplotlib import pyplot

    from bench import report

    figure, (by_nodes, by_stripes) = pyplot.subplots(2, 1, figsize=(9, 9))
    for one in shown.curves:
        by_nodes.plot(one.nodes, one.seconds, marker="o", label=one.label)
    by_nodes.set_title(f"start of {RANKS} ranks a node, import torch")
    by_nodes.set_xlabel("nodes")
    for nodes, took in shown.by_stripes.items():
        by_stripes.plot(STRIPES, took, marker="o", label=f"{nodes:,} nodes")
    by_stripes.set_title(STRIPED)
    by_stripes.set_xlabel("storage targets of image and packed file")
    for axis in (by_nodes, by_stripes):
        axis.set_xscale("log", base=2 if axis is by_stripes else 10)
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.set_ylabel("seconds")
        axis.legend()
    report.save(figure, path)
