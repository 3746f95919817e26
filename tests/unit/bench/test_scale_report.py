"""What the model says of the measured ways: the page, the pictures and the command."""

import json
import math
import os
import sys
from pathlib import Path

import pytest
from bench.scale import replay, report
from bench.scale.__main__ import main
from bench.scale.model import Outcome
from bench.scale.parameters import Cluster, Demand, ParameterError, Way, measured

ROOT = Path(__file__).parents[3]


def curve_of(seconds: list[float]) -> report.Curve:
    outcomes = [Outcome(seconds=one, served=Demand()) for one in seconds]
    nodes = [10**number for number in range(len(seconds))]
    return report.Curve(label="one", way=Way(name=""), cluster=Cluster(), ranks=1, nodes=nodes, outcomes=outcomes)


@pytest.mark.slow
def test_the_page_is_what_the_model_says() -> None:
    assert (ROOT / "docs/benchmarks/scale.md").read_text() == report.page(report.figures()), (
        "run python -m bench.scale --write docs/benchmarks"
    )


def test_the_model_agrees_with_the_slow_file_system() -> None:
    found = report.compared()
    assert {one.clients for one in found} == {1, 2, 4, 8, 16}
    for one in found:
        assert one.ratio == pytest.approx(1, abs=0.2), one


def test_the_measured_ways() -> None:
    ways = measured()
    loose, each, shared, broadcast = ways.values()
    assert loose.node.metadata > 100 * each.node.metadata
    assert each.rank.metadata > shared.rank.metadata
    assert shared.seconds > shared.saved > each.saved == 0
    assert not loose.striped
    assert broadcast.broadcast > each.node.bytes
    assert broadcast.node == broadcast.rank == Demand()


def test_what_was_not_measured_is_named(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text('{"rows": [], "growths": []}')
    with pytest.raises(ParameterError, match="--only starts"):
        measured(results)
    with pytest.raises(ParameterError, match="--only grow-clients"):
        report.compared(results)


def test_the_knee_is_where_a_start_takes_twice_as_long() -> None:
    assert curve_of([3, 4, 8]).knee == pytest.approx(10 ** (1 + math.log(6 / 4) / math.log(8 / 4)))
    assert curve_of([3, 6, 8]).knee == pytest.approx(10)
    assert curve_of([3, 4, 5]).knee == math.inf


def test_layouts_matter_to_files_with_stripes_only() -> None:
    ways = {way.name: way for way in (Way(name="a", striped=False), Way(name="b"), Way(name="c", broadcast=1))}
    drawn = report.curves(ways, Cluster(targets=8), nodes=[1])
    assert [(one.label, one.cluster.stripes) for one in drawn] == [
        ("a", 1),
        ("b, 1 target", 1),
        ("b, 8 targets", 8),
        ("c", 1),
    ]


def test_a_bigger_program_reads_more_in_as_many_files() -> None:
    way = Way(name="", node=Demand(metadata=3, reads=5, bytes=7), rank=Demand(reads=1, bytes=2), broadcast=11)
    bigger = way.bigger(10)
    assert bigger.node == Demand(metadata=3, reads=50, bytes=70)
    assert bigger.rank == Demand(reads=10, bytes=20)
    assert bigger.broadcast == 110


def test_json_of_the_curves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "10", "1", "--ranks", "2", "--way", "packed", "--set", "targets=4", "--json"]) == 0
    one, four = json.loads(capsys.readouterr().out)
    assert (one["way"], four["way"]) == ("packed, 1 target", "packed, 4 targets")
    assert [point["nodes"] for point in one["points"]] == [1, 10]
    assert one["points"][1]["served"]["bytes"] == 10 * one["points"][0]["served"]["bytes"]


def test_the_parameters_and_the_comparison_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--parameters", "--set", "stripes=4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "stripes=4: targets over which an image or a packed file is spread (Lustre's default layout)" in lines
    assert all(line.endswith(")") for line in lines)
    assert main(["--compare", "--json"]) == 0
    assert {one["clients"] for one in json.loads(capsys.readouterr().out)} == {1, 2, 4, 8, 16}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "target=1"], "no parameter 'target'"),
        (["--set", "targets=1.5"], "targets is '1.5': it must be a whole number"),
        (["--set", "read_latency=x"], "read_latency is 'x': it must be a number"),
        (["--write", "/nowhere"], "'/nowhere/results.json' can't be read or written: No such file or directory"),
        (["--set", "targets"], "targets is ''"),
        (["--set", "stripes=40"], "there are 32 targets"),
        (["--way", "tape"], "no way 'tape'"),
        (["--times", "0"], "--times is 0: it must be 1 or more"),
        (["--nodes", "0", "--way", "packed"], "at least one of each"),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    printed = capsys.readouterr()
    assert message in printed.err
    assert not printed.out


def test_the_pictures_are_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")  # only where benchmarks are run
    shown = report.Figures(
        ways=[],
        curves=[curve_of([3, 4, 8])],
        bigger=[],
        by_stripes={100: [6, 5, 4, 3, 2, 1]},
        compared=[],
    )
    for name in ("one.svg", "two.svg"):
        report.draw(shown, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_replay_does_as_many_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "replayed"
    replay.write_folder(folder, 20, 7)
    looks: list[str] = []
    pages: list[int] = []
    look, read = Path.lstat, os.pread

    def noted_look(path: Path) -> os.stat_result:
        looks.append(path.name)
        return look(path)

    def noted_read(descriptor: int, size: int, offset: int) -> bytes:
        pages.append(offset)
        return read(descriptor, size, offset)

    monkeypatch.setattr(Path, "lstat", noted_look)
    monkeypatch.setattr(os, "pread", noted_read)
    monkeypatch.setattr(sys, "argv", ["replay", str(folder), "20", "7"])
    replay.main()
    assert looks == [str(number) for number in range(20)]
    assert pages == [number * replay.PAGE for number in range(7)]
