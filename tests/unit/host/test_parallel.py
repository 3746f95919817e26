import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from sifmod.errors import CommandError
from sifmod.host.command import Result, run
from sifmod.host.parallel import called_in_threads


def test_results_come_in_the_order_of_the_items() -> None:
    first_may_end = threading.Event()

    def call(item: int) -> int:
        if item == 0:
            first_may_end.wait(240)
        return item * 2

    with called_in_threads(call, range(100)) as results:
        assert results[1].result(240) == 2
        first_may_end.set()
        assert [result.result(240) for result in results] == [item * 2 for item in range(100)]


def test_calls_run_at_the_same_time() -> None:
    both = threading.Barrier(2)
    with called_in_threads(lambda _item: both.wait(240), "ab") as results:
        assert sorted(result.result(240) for result in results) == [0, 1]


def test_a_call_that_fails_fails_alone() -> None:
    with called_in_threads(lambda item: 6 // item, [1, 0, 2]) as results:
        assert (results[0].result(240), results[2].result(240)) == (6, 3)
        with pytest.raises(ZeroDivisionError):
            results[1].result(240)


def test_an_exception_ends_the_commands_of_all_calls_and_starts_no_other(tmp_path: Path) -> None:
    """As Ctrl-C does, which comes to the main thread: the threads wait for commands that may never end."""

    def call(item: int) -> Result:
        run(["bash", "-c", 'echo $$ >"$0"; sleep 600 & wait', tmp_path / str(item)], time_limit=900)
        return run(["touch", tmp_path / f"{item}.more"])

    results: list[Future[Result]] = []

    def interrupt() -> None:
        with called_in_threads(call, range(20)) as started:
            results.extend(started)
            while not all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in "01"):
                time.sleep(0.01)
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert time.monotonic() - begun < 240
    for name in "01":
        assert not Path("/proc", (tmp_path / name).read_text().strip()).exists()
        with pytest.raises(CommandError, match="sifmod is about to end"):
            results[int(name)].result(240)
    assert not list(tmp_path.glob("*.more"))
    assert run(["true"]).status == 0
