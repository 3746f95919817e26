"""Progress as lines: seldom, and with what people want to know."""

import threading

import pytest

from sifmod.text.progress import QUIET, Lines, measured


@pytest.mark.parametrize(
    ("done", "size", "seconds", "text"),
    [
        (1_200_000_000, 8_000_000_000, 4.8, "1.2 GB of 8 GB, 250 MB/s, 0:27 left"),
        (0, 8_000_000_000, 0.0, "0 B of 8 GB"),
        (8, 8, 2.0, "8 B of 8 B, 4 B/s, 0:00 left"),
        (1, 10_000, 1.0, "1 B of 10 kB, 1 B/s, 2:46:39 left"),
        (0, 0, 90.0, "1:30 passed"),
        (53_600_000, 0, 3661.0, "53.6 MB, 1:01:01 passed"),
    ],
)
def test_how_far_a_step_is(done: int, size: int, seconds: float, text: str) -> None:
    assert measured(done, size, seconds) == text


def test_lines_come_every_minute_and_none_for_short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    said: list[str] = []
    with Lines(said.append).step("copying demo.sif", size=100) as step:
        for clock[0] in (2.0, 59.0, 61.0, 80.0, 122.0):
            step.advance(10)
    assert said == [
        "... copying demo.sif: 30 B of 100 B, 0 B/s, 2:22 left",
        "... copying demo.sif: 50 B of 100 B, 0 B/s, 2:02 left",
    ]
    with Lines(said.append).step("pulling") as step:
        clock[0] = 200.0
        step.tell("INFO: Fetching")
    assert said[2:] == ["... pulling: 1:18 passed"]


def test_many_short_steps_have_lines_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    said: list[str] = []
    lines = Lines(said.append)
    for number in range(1, 100):
        with lines.step(f"verifying {number} of 99") as step:
            clock[0] += 1
            step.advance(0)
    assert said == ["... verifying 60 of 99: 0:01 passed"]


def test_a_step_that_nobody_looks_at_or_that_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sifmod.text.progress._EVERY", 0.01)
    told = threading.Event()
    with Lines(lambda line: told.set() if line.startswith("... reading: ") else None).step("reading"):
        assert told.wait(60)
    with QUIET.step("copying", size=3) as step:
        step.advance(3)
        step.tell("line")
