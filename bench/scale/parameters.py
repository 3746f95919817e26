"""What a cluster can do, and what a start needs of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

_MEASURED_CORES = 2  # of the machine that measured the row `share_64`, all of them busy

RESULTS = Path(__file__).parents[2] / "docs/benchmarks/results.json"


class ParameterError(Exception):
    """A parameter has no usable value."""


def _parameter(value: float, meaning: str, source: str) -> Any:
    return field(default=value, metadata={"meaning": meaning, "source": source})


_LUMI_P = "32 targets and 240 GB/s a file system: LUMI-P, https://docs.lumi-supercomputer.eu/hardware/storage/lumip/"
_LUMI_NETWORK = "Slingshot-11, 200 Gbit/s: LUMI, https://docs.lumi-supercomputer.eu/hardware/network/"
_LUSTRE = "known production usage, Lustre Operations Manual, table 1.1, https://doc.lustre.org/lustre_manual.xhtml"
_DELL = (
    "over 2,000 stat/s of one thread: Dell, HPC Lustre Storage solution with Intel Omni-Path, white paper, figure 13"
)
_SBCAST = "sbcast(1): a fanout of 8 at most, blocks of 8 MB, https://slurm.schedmd.com/sbcast.html"
_MAY_BE_ZERO = ("metadata_latency", "read_latency", "launch_seconds", "broadcast_latency")
_ASSUMED = "assumed: no published figure was found"


@dataclass(frozen=True)
class Cluster:
    """A parallel file system, its clients and their network. The units are seconds and bytes."""

    metadata_rate: float = _parameter(200_000, "metadata operations a second, all clients together", _LUSTRE)
    metadata_seconds: float = _parameter(0.0005, "one metadata operation without a queue", _DELL)
    metadata_latency: float = _parameter(
        0, "the part of it without a server", "assumed: a server works on it all the time"
    )
    targets: int = _parameter(32, "storage targets", _LUMI_P)
    target_bandwidth: float = _parameter(7.5e9, "bytes a second of one target", _LUMI_P)
    read_latency: float = _parameter(0.0005, "one read without a queue, beside its bytes", _ASSUMED)
    node_bandwidth: float = _parameter(25e9, "bytes a second into one node", _LUMI_NETWORK)
    stripes: int = _parameter(1, "targets over which an image or a packed file is spread", "Lustre's default layout")
    cores: int = _parameter(
        64, "cores of a node", "LUMI's GPU nodes, https://docs.lumi-supercomputer.eu/hardware/lumig/"
    )
    launch_seconds: float = _parameter(
        0, "from the first node's start to the last one's", "the worst case: all at once"
    )
    broadcast_fanout: int = _parameter(8, "nodes to which a node of the broadcast sends", _SBCAST)
    broadcast_block: float = _parameter(8e6, "bytes that are sent at once", _SBCAST)
    broadcast_bandwidth: float = _parameter(1e9, "bytes a second that a node of the broadcast sends", _ASSUMED)
    broadcast_latency: float = _parameter(0.001, "one message of the broadcast, beside its bytes", _ASSUMED)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in _MAY_BE_ZERO:
                if not value >= 0:
                    raise ParameterError(f"{one.name} is {value:g}: it must be 0 or more")
            elif not value > 0:
                raise ParameterError(f"{one.name} is {value:g}: it must be more than 0")
        if self.metadata_latency >= self.metadata_seconds:
            raise ParameterError("metadata_latency must be less than metadata_seconds, of which it is a part")
        if self.stripes > self.targets:
            raise ParameterError(f"stripes is {self.stripes}, but there are {self.targets} targets")


@dataclass(frozen=True)
class Demand:
    """What is asked of the file system."""

    metadata: int = 0
    reads: int = 0
    bytes: int = 0

    def __add__(self, other: Demand) -> Demand:
        return Demand(
            metadata=self.metadata + other.metadata, reads=self.reads + other.reads, bytes=self.bytes + other.bytes
        )

    def times(self, factor: int) -> Demand:
        return Demand(metadata=self.metadata * factor, reads=self.reads * factor, bytes=self.bytes * factor)


@dataclass(frozen=True)
class Way:
    """A way to start a program.

    node: what the first rank of a node asks for. rank: what each further rank there asks for, whose reads are mostly in
    the node's memory. seconds: what a rank takes from a local disk. saved: processor time of these that a further rank
    does without, because it starts no container. striped: all ranks read files that have the site's stripes, instead of
    many small ones on all targets. broadcast: bytes that are sent to each node before the start.
    """

    name: str
    node: Demand = Demand()
    rank: Demand = Demand()
    seconds: float = 0
    saved: float = 0
    striped: bool = True
    broadcast: int = 0

    def bigger(self, times: int) -> Way:
        """Return the way of a program that reads so many times as much, in as many files."""

        def more(demand: Demand) -> Demand:
            return replace(demand, reads=demand.reads * times, bytes=demand.bytes * times)

        return replace(self, node=more(self.node), rank=more(self.rank), broadcast=self.broadcast * times)


def measured(results: Path = RESULTS) -> dict[str, Way]:
    """Return the ways as the row `starts` of `make bench` measured them.

    Raises ParameterError if that row is not there.
    """
    rows = {row["key"]: row for row in json.loads(results.read_text())["rows"]}
    if "starts" not in rows:
        raise ParameterError(f"{results} has no row 'starts': run make bench BENCH_ARGS='--only starts'")
    commands = {one["label"]: one for one in rows["starts"]["commands"]}

    def demand(label: str) -> Demand:
        figures = commands[label]["figures"]
        return Demand(
            metadata=round(figures["metadata operations"]), reads=round(figures["reads"]), bytes=round(figures["bytes"])
        )

    def further(one: str, four: str) -> Demand:
        """Return what a second rank adds, never less than nothing: reads vary by a few from run to run."""
        more = demand(four) + demand(one).times(-1)
        return Demand(metadata=max(more.metadata, 0) // 3, reads=max(more.reads, 0) // 3, bytes=max(more.bytes, 0) // 3)

    local = commands["packed, 1 rank, from the local disk"]
    packed, loose = demand("packed, 1 rank"), demand("loose, 1 rank")
    ways = (
        Way(
            name="loose files",
            node=loose,
            rank=further("loose, 1 rank", "loose, 4 ranks, a container each"),
            seconds=commands["loose, 1 rank, from the local disk"]["median"],
            striped=False,
        ),
        Way(
            name="packed",
            node=packed,
            rank=further("packed, 1 rank", "packed, 4 ranks, a container each"),
            seconds=local["median"],
        ),
        Way(
            name="packed, shared container",
            node=packed,
            rank=further("packed, 1 rank", "packed, 4 ranks in one container"),
            seconds=local["median"],
            saved=_saved(rows),
        ),
        Way(name="packed, broadcast", seconds=local["median"], broadcast=round(local["figures"]["size"])),
    )
    return {way.name: way for way in ways}


def _saved(rows: Mapping[str, Any]) -> float:
    """Return the processor time that a further rank on a node saves in a shared container; 0 if it was not measured."""
    medians = {one["label"]: one["median"] for one in rows.get("share_64", {"commands": ()})["commands"]}
    more = medians.get("a container each", 0) - medians.get("one container for all", 0)
    return float(max(more, 0) * _MEASURED_CORES / 63)


def with_changes(changes: Mapping[str, str]) -> Cluster:
    """Return the default cluster with these parameters in place of its own.

    Raises ParameterError for an unknown name, and for a value that is no number.
    """
    kinds = get_type_hints(Cluster)
    values: dict[str, Any] = {}
    for name, text in changes.items():
        if name not in kinds:
            raise ParameterError(f"there is no parameter {name!r}: {', '.join(kinds)}")
        try:
            values[name] = kinds[name](text)
        except ValueError:
            kind = "whole number" if kinds[name] is int else "number"
            raise ParameterError(f"{name} is {text!r}: it must be a {kind}") from None
    return Cluster(**values)
