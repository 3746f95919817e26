"""How far checks of many installations are."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sifmod.commands import several
from sifmod.installed.installation import Installation
from sifmod.text.progress import QUIET, Progress, Step

ITEMS = cast("list[Installation]", [SimpleNamespace(module=name) for name in ("A/1", "B/1", "C/1")])


class _Titles:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextmanager
    def step(self, title: str, *, size: int = 0) -> Iterator[Step]:
        assert size == 0
        self.seen.append(title)
        yield QUIET


@contextmanager
def in_this_thread(call: Any, items: Any) -> Iterator[Any]:
    yield [SimpleNamespace(result=lambda item=item: call(item)) for item in items]


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> _Titles:
    found = _Titles()
    monkeypatch.setattr(several, "shown_progress", lambda: found)
    monkeypatch.setattr(several, "wait", lambda _results, timeout: SimpleNamespace(done=timeout))
    monkeypatch.setattr(several, "called_in_threads", in_this_thread)
    clock = iter(range(0, 1000, 90))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    return found


def checked(*, quiet: bool) -> list[str]:
    def check(_item: Installation, progress: Progress) -> list[Any]:
        assert progress is QUIET, "one display for all"
        return []

    return [item.module for item, _ in several.in_parallel(ITEMS, check, doing="verifying", quiet=quiet)]


def test_a_step_for_each_with_the_time_left(titles: _Titles) -> None:
    assert checked(quiet=False) == ["A/1", "B/1", "C/1"]
    assert titles.seen == [
        "verifying 1 of 3: A/1",
        "verifying 2 of 3, 3:00 left: B/1",
        "verifying 3 of 3, 1:30 left: C/1",
    ]


def test_quiet_shows_nothing(titles: _Titles) -> None:
    assert checked(quiet=True) == ["A/1", "B/1", "C/1"]
    assert titles.seen == []
