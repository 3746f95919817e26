"""A discrete-event model of nodes that start a program at once from one parallel file system.

The ranks of a node ask for the metadata operations and the reads of their way (`parameters.Way`), one after the other,
and compute in between. Two things stand between nodes: the metadata servers and the storage targets. Each is a queue in
front of some servers, first come, first served.

10,000 nodes of 8 ranks have 10**8 operations, so the model takes two short cuts. Both leave it the same queues:

- An operation stands for several of its rank (`steps` limits how many there are) and keeps its server as long as these
  do together. The same happens on a coarser clock: how far ranks are apart changes, at the beginning and at the end.
- A node stands for several (`groups` limits how many there are), and a server for as many servers. If there are fewer
  servers than that, one stands for all of them, and is as much faster.

What is served in all, and what a lone node takes, stay what they are. With `groups=EVERY` and `steps=EVERY` each
operation of each rank is an event; a test holds the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import simpy

from bench.scale.parameters import Cluster, Demand, ParameterError, Way

GROUPS = 16
STEPS = 32
EVERY = 1 << 62  # no limit

_Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Outcome:
    """What a start took: seconds until the last rank is ready, and what the file system served in all."""

    seconds: float
    served: Demand


class _Station:
    """Servers with a queue before them.

    Args:
        servers: how many there are.
        rate: operations a second of all together.
        alone: seconds that an operation takes without a queue; what a server does not need of it is spent elsewhere.
        nodes: how many nodes an operation stands for, at most.
    """

    def __init__(self, environment: simpy.Environment, *, servers: int, rate: float, alone: float, nodes: int) -> None:
        self._environment, self._rate, self._alone = environment, rate, alone
        self._merged = max(1, servers // nodes)
        self._servers = simpy.Resource(environment, self._merged)
        self.served = 0

    def serve(self, operations: int, nodes: int) -> _Process:
        """Do so many operations, one after the other, for each of so many nodes."""
        if operations:
            busy = operations * nodes * self._merged / self._rate
            with self._servers.request() as turn:
                yield turn
                yield self._environment.timeout(busy)
            yield self._environment.timeout(max(0, operations * self._alone - busy))
            self.served += operations * nodes


def start(cluster: Cluster, way: Way, *, nodes: int, ranks: int, groups: int = GROUPS, steps: int = STEPS) -> Outcome:
    """Return what the start of so many nodes with so many ranks each takes.

    groups: as how many nodes they are simulated, at most. steps: in how many steps a rank is simulated, at most.

    Raises ParameterError without a node or a rank.
    """
    if nodes < 1 or ranks < 1:
        raise ParameterError(f"{nodes} nodes with {ranks} ranks: at least one of each is needed")
    return _Start(cluster, way, nodes, ranks, min(groups, nodes), steps).run()


class _Start:
    def __init__(self, cluster: Cluster, way: Way, nodes: int, ranks: int, groups: int, steps: int) -> None:
        self._cluster, self._way, self._nodes, self._ranks, self._groups = cluster, way, nodes, ranks, groups
        operations = max(way.node.metadata, way.node.reads, way.rank.metadata, way.rank.reads)
        self._steps = max(1, min(steps, operations))
        environment = self._environment = simpy.Environment()
        each = math.ceil(nodes / groups)
        rate, seconds = cluster.metadata_rate, cluster.metadata_seconds
        # as many as reach the rate if each is as quick as it is without a queue
        servers = max(1, round(rate * (seconds - cluster.metadata_latency)))
        self._metadata = _Station(environment, servers=servers, rate=rate, alone=seconds, nodes=each)
        asked = _asked_of_nodes(way, nodes, ranks)
        size = self._read_size = max(1, asked.bytes / max(1, asked.reads))
        targets = cluster.stripes if way.striped else cluster.targets
        # the ranks of a node share its network
        alone = size * max(1 / cluster.target_bandwidth, ranks / cluster.node_bandwidth) + cluster.read_latency
        rate = targets * cluster.target_bandwidth / size
        self._reads = _Station(environment, servers=targets, rate=rate, alone=alone, nodes=each)

    def run(self) -> Outcome:
        self._environment.run(self._environment.process(self._all()))
        metadata, reads = self._metadata.served, self._reads.served
        served = Demand(metadata=metadata, reads=reads, bytes=round(reads * self._read_size))
        return Outcome(seconds=self._environment.now, served=served + _asked_once(self._way))

    def _all(self) -> _Process:
        if self._way.broadcast:
            yield self._environment.process(self._broadcast())
        yield self._environment.all_of([self._environment.process(one) for one in self._each_group()])

    def _each_group(self) -> Iterator[_Process]:
        for number in range(self._groups):
            nodes = self._nodes * (number + 1) // self._groups - self._nodes * number // self._groups
            yield self._group(self._cluster.launch_seconds * number / max(1, self._groups - 1), nodes)

    def _group(self, begin: float, nodes: int) -> _Process:
        """Start nodes that do the same; their ranks go step by step, as one waits for what another one reads."""
        environment, way = self._environment, self._way
        ranks = [way.node] + [way.rank] * (self._ranks - 1)
        busy = self._ranks * way.seconds - (self._ranks - 1) * min(way.saved, way.seconds)
        seconds = max(way.seconds, busy / self._cluster.cores) / self._steps
        yield environment.timeout(begin)
        for step in range(self._steps):
            for station, kind in ((self._metadata, "metadata"), (self._reads, "reads")):
                counts = (self._in_step(getattr(rank, kind), step) for rank in ranks)
                asked = [environment.process(station.serve(count, nodes)) for count in counts if count]
                if asked:
                    yield environment.all_of(asked)
            yield environment.timeout(seconds)

    def _in_step(self, operations: int, step: int) -> int:
        return operations * (step + 1) // self._steps - operations * step // self._steps

    def _broadcast(self) -> _Process:
        """Read the file once, block by block; a block goes down a tree of nodes before the next one is read."""
        cluster, environment = self._cluster, self._environment
        alone = min(cluster.node_bandwidth, cluster.target_bandwidth)
        fanout = min(cluster.broadcast_fanout, self._nodes)
        yield environment.timeout(cluster.metadata_seconds)
        left = float(self._way.broadcast)
        while left > 0:
            size = min(left, cluster.broadcast_block)
            left -= size
            yield environment.timeout(cluster.read_latency + size / alone)
            for _ in range(_levels(self._nodes, fanout)):
                seconds = fanout * size / cluster.broadcast_bandwidth + cluster.broadcast_latency
                yield environment.timeout(seconds)


def _levels(nodes: int, fanout: int) -> int:
    """Return the depth of a tree in which each sends to `fanout` nodes; the sender at its top is none of the nodes."""
    levels, reached, newest = 0, 0, 1
    while reached < nodes:
        newest *= fanout
        reached += newest
        levels += 1
    return levels


def _asked_of_nodes(way: Way, nodes: int, ranks: int) -> Demand:
    return (way.node + way.rank.times(ranks - 1)).times(nodes)


def _asked_once(way: Way) -> Demand:
    return Demand(metadata=1, reads=1, bytes=way.broadcast) if way.broadcast else Demand()


def total(way: Way, nodes: int, ranks: int) -> Demand:
    """Return what the nodes ask of the file system in all, with the one reading of a broadcast."""
    return _asked_of_nodes(way, nodes, ranks) + _asked_once(way)
