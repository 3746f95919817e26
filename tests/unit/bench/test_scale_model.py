"""The model of many nodes that start."""

import dataclasses
import math

import pytest
from bench.scale.model import EVERY, start, total
from bench.scale.parameters import Cluster, Demand, ParameterError, Way
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = Cluster(
    metadata_rate=4000,
    metadata_seconds=0.001,
    targets=4,
    stripes=2,
    target_bandwidth=1e8,
    node_bandwidth=1e9,
    read_latency=0.0005,
)
LOOSE = Way(
    name="loose",
    node=Demand(metadata=200, reads=90, bytes=5_400_000),
    rank=Demand(metadata=60),
    seconds=0.1,
    striped=False,
)
PACKED = Way(
    name="packed", node=Demand(metadata=13, reads=100, bytes=10_000_000), rank=Demand(metadata=13), seconds=0.1
)
BROADCAST = Way(name="broadcast", seconds=0.1, broadcast=20_000_000)

counts = st.integers(0, 300)


@st.composite
def ways(draw: st.DrawFn) -> Way:
    """Ways whose reads have one size: the model has one for all, their average."""
    size = draw(st.integers(1, 200_000))
    node, rank = (
        Demand(metadata=draw(counts), reads=reads, bytes=reads * size) for reads in draw(st.tuples(counts, counts))
    )
    return Way(name="", node=node, rank=rank, seconds=draw(st.floats(0, 2)), striped=draw(st.booleans()))


clusters = st.builds(
    lambda rate, bandwidth, targets, seconds: Cluster(
        metadata_rate=rate, metadata_seconds=seconds, target_bandwidth=bandwidth, targets=targets, stripes=targets
    ),
    st.floats(100, 1e6),
    st.floats(1e6, 1e10),
    st.integers(1, 64),
    st.floats(1e-4, 1e-2),
)
# a queue with several servers is not monotonic: the order in which it serves can change for the worse (Graham, 1969)
ANOMALY = 0.02
few = settings(max_examples=40)


@pytest.mark.parametrize("way", [LOOSE, PACKED], ids=lambda way: way.name)
@pytest.mark.parametrize("rate", [1000, 4000, 20_000])
@pytest.mark.parametrize("nodes", [1, 2, 8, 32])
def test_steps_and_groups_agree_with_every_operation(way: Way, rate: float, nodes: int) -> None:
    cluster = dataclasses.replace(SMALL, metadata_rate=rate)
    every = start(cluster, way, nodes=nodes, ranks=4, groups=EVERY, steps=EVERY)
    batched = start(cluster, way, nodes=nodes, ranks=4)
    assert batched.served == every.served
    # the worst is where the servers are busy for most of the time, but not always
    assert batched.seconds == pytest.approx(every.seconds, rel=0.1)


def test_a_lone_client_waits_for_its_own_operations_only() -> None:
    way = Way(name="", node=Demand(metadata=100, reads=50, bytes=5_000_000), seconds=3)
    assert start(SMALL, way, nodes=1, ranks=1).seconds == pytest.approx(100 * 0.001 + 50 * (0.001 + 0.0005) + 3)


def test_many_nodes_take_what_the_slowest_of_the_servers_takes() -> None:
    loose = start(SMALL, LOOSE, nodes=1000, ranks=4).seconds
    assert loose == pytest.approx(1000 * (200 + 3 * 60) / 4000, rel=0.02)
    packed = start(SMALL, PACKED, nodes=1000, ranks=4).seconds
    assert packed == pytest.approx(1000 * 10_000_000 / (2 * 1e8), rel=0.02)


def test_a_broadcast_reads_once_and_grows_with_the_depth_of_its_tree() -> None:
    cluster = dataclasses.replace(SMALL, broadcast_fanout=4)
    seconds = {}
    for nodes in (4, 5, 20, 21):
        outcome = start(cluster, BROADCAST, nodes=nodes, ranks=8)
        assert outcome.served == Demand(metadata=1, reads=1, bytes=20_000_000)
        seconds[nodes] = outcome.seconds
    assert seconds[4] < seconds[5] == seconds[20] < seconds[21]


def test_cores_and_the_launch_are_waited_for_and_a_shared_container_saves_time() -> None:
    idle = Way(name="", seconds=2)
    assert start(SMALL, idle, nodes=5, ranks=4).seconds == pytest.approx(2)
    assert start(dataclasses.replace(SMALL, cores=2), idle, nodes=5, ranks=4).seconds == pytest.approx(4)
    assert start(dataclasses.replace(SMALL, launch_seconds=7), idle, nodes=5, ranks=4).seconds == pytest.approx(9)
    few = dataclasses.replace(SMALL, cores=2)
    shared = Way(name="", seconds=2, saved=0.5)
    assert start(few, shared, nodes=5, ranks=4).seconds == pytest.approx((4 * 2 - 3 * 0.5) / 2)
    assert start(SMALL, shared, nodes=5, ranks=4).seconds == pytest.approx(2)


@few
@given(clusters, ways(), st.integers(1, 500), st.integers(1, 16))
def test_what_is_asked_for_is_served(cluster: Cluster, way: Way, nodes: int, ranks: int) -> None:
    served, asked = start(cluster, way, nodes=nodes, ranks=ranks, groups=8, steps=8).served, total(way, nodes, ranks)
    assert (served.metadata, served.reads) == (asked.metadata, asked.reads)
    assert served.bytes == pytest.approx(asked.bytes)


@few
@given(clusters, ways(), st.integers(1, 500), st.integers(1, 16))
def test_no_start_is_faster_than_the_servers_and_the_ranks(cluster: Cluster, way: Way, nodes: int, ranks: int) -> None:
    asked = total(way, nodes, ranks)
    bandwidth = cluster.target_bandwidth * cluster.targets
    least = max(way.seconds, asked.metadata / cluster.metadata_rate, asked.bytes / bandwidth)
    assert start(cluster, way, nodes=nodes, ranks=ranks, groups=8, steps=8).seconds >= least * (1 - 1e-9)


@few
@given(clusters, ways(), st.integers(1, 500), st.integers(1, 16), st.integers(1, 16))
def test_more_ranks_are_never_faster(cluster: Cluster, way: Way, nodes: int, ranks: int, more: int) -> None:
    fewer = start(cluster, way, nodes=nodes, ranks=ranks, groups=8, steps=8).seconds
    assert start(cluster, way, nodes=nodes, ranks=ranks + more, groups=8, steps=8).seconds >= fewer * (1 - ANOMALY)


@few
@given(clusters, ways(), st.integers(1, 500), st.integers(1, 16), st.integers(2, 4))
def test_more_targets_are_never_slower(cluster: Cluster, way: Way, nodes: int, ranks: int, times: int) -> None:
    targets = cluster.targets * times
    wider = dataclasses.replace(cluster, targets=targets, stripes=targets)
    before = start(cluster, way, nodes=nodes, ranks=ranks, groups=8, steps=8).seconds
    assert start(wider, way, nodes=nodes, ranks=ranks, groups=8, steps=8).seconds <= before * (1 + ANOMALY)


@pytest.mark.parametrize(("nodes", "ranks"), [(0, 1), (1, 0), (-1, 1)])
def test_nothing_to_start_is_refused(nodes: int, ranks: int) -> None:
    with pytest.raises(ParameterError, match="at least one of each"):
        start(SMALL, LOOSE, nodes=nodes, ranks=ranks)


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata_rate": 0},
        {"target_bandwidth": math.nan},
        {"read_latency": -1},
        {"targets": 0},
        {"stripes": 33},
        {"metadata_latency": 0.0005},
    ],
    ids=str,
)
def test_impossible_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Cluster(**wrong)  # type: ignore[arg-type] # whole numbers among them
