"""What all tests share: which tools integration tests need, and what their absence means."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Optional

import pytest
from tests.lacking import lacking

TOOLS = (
    *("eb", "singularity", "srun", "sbatch", "scontrol", "mksquashfs", "unsquashfs", "flock", "bash"),
    *("openssl", "uv"),
)


# Ignored where a shell has put this in the background, or nohup: what the tests start would inherit that, and a shell
# can't undo it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_make_parametrize_id(val: object, argname: str) -> Optional[str]:
    """Return a short name for a test whose parameter is long: logs repeat names."""
    return f"{argname} of {len(val)}" if isinstance(val, (str, bytes)) and len(val) > 200 else None


def missing_tools() -> list[str]:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not os.environ.get("BASH_ENV"):
        missing.append("Lmod's init file in BASH_ENV")
    if os.geteuid() == 0:
        missing.append("an ordinary user (this is root)")
    return missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run integration tests where their tools are."""
    if item.get_closest_marker("integration") is None:
        return
    missing = missing_tools()
    if missing:
        lacking(f"missing: {', '.join(missing)}; run this through `make test`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what may take longest first, by its own `timeout`: the other cores have work to the end."""

    def most_seconds(item: pytest.Item) -> float:
        marker = item.get_closest_marker("timeout")
        return marker.args[0] if marker else 0

    items.sort(key=most_seconds, reverse=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which every test was skipped, as pytest itself does where none was found."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    if exitstatus == pytest.ExitCode.OK and not any(reporter.stats.get(kind) for kind in ("passed", "xfailed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
