"""What a run of the tests says: how far it is, what took long, what was left out and why, how to repeat a failure."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.sampling import SEED, seed

SLOWEST = 20
# A program that reads the log of CI may take a minute without output for the end.
SECONDS_BETWEEN_LINES = 60.0
# What each file took, its quick tests and its slow ones: the longest starts first.
# The variable names a file to which a run writes them.
SECONDS = Path(__file__).with_name("seconds.txt")
# What tests/run has left out itself, a line each.
LEFT_OUT = "SIFMOD_TESTS_LEFT_OUT"
WRITE_SECONDS = "SIFMOD_TEST_WRITE_SECONDS"


def read_seconds(path: Path = SECONDS) -> dict[str, tuple[float, float]]:
    """Return file -> seconds of its quick tests, and of its slow ones."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {file: (float(quick), float(slow)) for quick, slow, file in (line.split(None, 2) for line in lines)}


def kind_of(nodeid: str) -> str:
    """Return the kind of a test, which is the folder below `tests` that it lies in."""
    parts = nodeid.partition("::")[0].split("/")
    return parts[parts.index("tests") + 1] if "tests" in parts[:-2] else "other"


def command_for(nodeid: str) -> str:
    """Return what to type in the checkout to run a test again, alone."""
    return f"tests/run {shlex.quote(nodeid)}"


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test was left out, as a line."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    # hypothesis adds the values of the example
    return " ".join(text.removeprefix("Skipped: ").partition("\nFailing explicit example")[0].split())


def format_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


class Reporting:
    """Counts what the workers report, for a line a minute and for the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.started = self.last_line = time.monotonic()
        self.expected = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.outcomes: dict[str, str] = {}
        self.slow: set[str] = set()
        self.raced: set[str] = set()  # failed, and run again
        self.left_out: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def pytest_report_header(self) -> str:
        return f"sampled with {SEED}={seed}"

    def write_seconds(self, path: Path) -> None:
        """Write what each file took: quick or slow tests of a file that this run has not run keep what they have."""
        known = read_seconds(path)
        for file in {nodeid.partition("::")[0] for nodeid in self.outcomes}:
            those = {nodeid for nodeid in self.outcomes if nodeid.startswith(f"{file}::")}
            before = known.get(file, (0.0, 0.0))
            quick, slow = (
                round(sum(self.seconds[nodeid] for nodeid in some), 1) if some else kept
                for some, kept in zip((those - self.slow, those & self.slow), before)
            )
            known[file] = quick, slow
        lines = (f"{quick:7.1f} {slow:7.1f} {file}\n" for file, (quick, slow) in sorted(known.items()))
        path.write_text("".join(lines))

    def write(self, line: str = "") -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.expected = max(self.expected, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.expected = max(self.expected, len(ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        nodeid = report.nodeid
        self.seconds[nodeid] += report.duration
        if "slow" in report.keywords:
            self.slow.add(nodeid)
        if report.failed:
            self.outcomes[nodeid] = "failed"
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.outcomes[nodeid] = "left out"
            self.left_out[reason_of(report)][kind_of(nodeid)] += 1
        elif report.outcome == "rerun":  # type: ignore[comparison-overlap] # pytest-rerunfailures sets it
            self.raced.add(nodeid)
        else:
            self.outcomes.setdefault(nodeid, "passed")
        now = time.monotonic()
        if report.when == "teardown" and os.environ.get("CI") and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            failed = sum(outcome == "failed" for outcome in self.outcomes.values())
            self.write(
                f"after {format_seconds(now - self.started)}: {len(self.outcomes)} of {self.expected} tests, "
                f"{failed} failed, last {nodeid.encode('ascii', 'backslashreplace').decode()}"
            )

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.outcomes:
            return
        write = terminalreporter.write_line
        if len(self.outcomes) > SLOWEST:
            terminalreporter.section(f"the {SLOWEST} slowest tests")
            for nodeid, seconds in sorted(self.seconds.items(), key=lambda item: -item[1])[:SLOWEST]:
                write(f"{seconds:7.1f} s  {nodeid}")
        terminalreporter.section("tests by kind")
        for kind in sorted({kind_of(nodeid) for nodeid in self.outcomes}):
            those = [nodeid for nodeid in self.outcomes if kind_of(nodeid) == kind]
            counts = Counter(self.outcomes[nodeid] for nodeid in those)
            said = ", ".join(f"{counts[what]} {what}" for what in ("passed", "failed", "left out") if counts[what])
            write(f"{kind}: {said}; {format_seconds(sum(self.seconds[nodeid] for nodeid in those))} in all workers")
        more = os.environ.get(LEFT_OUT, "").splitlines()
        if self.left_out or more:
            terminalreporter.section("left out")
            for reason, counts in sorted(self.left_out.items(), key=lambda item: -sum(item[1].values())):
                kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
                write(f"{reason}: {kinds} test{'s' if sum(counts.values()) != 1 else ''}")
            for line in more:
                write(line)
        if os.environ.get(WRITE_SECONDS):
            self.write_seconds(Path(os.environ[WRITE_SECONDS]))
        failed = [nodeid for nodeid, outcome in self.outcomes.items() if outcome == "failed"]
        raced = sorted(nodeid for nodeid in self.raced if self.outcomes.get(nodeid) == "passed")
        if raced:
            terminalreporter.section("failed once and passed when run again: a race")
            for nodeid in raced:
                write(command_for(nodeid))
        if failed:
            terminalreporter.section("to repeat one alone")
            for nodeid in failed:
                write(command_for(nodeid))
