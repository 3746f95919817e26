import signal
from collections.abc import Iterator

import pytest

from sifmod.host.interruption import SIGNALS, Interruption


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    """Return one that is started, over handlers that do nothing."""
    before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    made = Interruption()
    made.start()
    yield made
    made.stop()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_raises_in_the_block(interruption: Interruption, number: signal.Signals) -> None:
    expected = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with pytest.raises(expected) as caught, interruption.delivered():
        signal.raise_signal(number)
    assert expected is KeyboardInterrupt or caught.value.args == (128 + number,)


def test_between_blocks_a_signal_waits_for_the_next(interruption: Interruption) -> None:
    done = []
    with interruption.delivered():
        done.append("first")
    signal.raise_signal(signal.SIGHUP)
    done.append("between")
    with pytest.raises(SystemExit), interruption.delivered():
        done.append("second")
    assert done == ["first", "between"]
    with interruption.delivered():
        done.append("third")


def test_what_a_signal_ends_is_not_interrupted_by_the_next(interruption: Interruption) -> None:
    cleaned = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGHUP)
            cleaned.append(True)

    with pytest.raises(SystemExit) as caught, interruption.delivered():
        work()
    assert cleaned
    assert caught.value.args == (128 + signal.SIGTERM,)


def test_a_signal_that_still_waits_at_the_end_is_sent_again(interruption: Interruption) -> None:
    signal.raise_signal(signal.SIGTERM)
    interruption.stop()
    seen = []
    signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    again = Interruption()
    again.start()
    signal.raise_signal(signal.SIGTERM)
    assert seen == []
    again.stop()
    assert seen == [signal.SIGTERM]


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption = Interruption()
    try:
        interruption.start()
        with interruption.delivered():
            signal.raise_signal(signal.SIGHUP)
    finally:
        interruption.stop()
        signal.signal(signal.SIGHUP, before)
