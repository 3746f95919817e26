"""What all tests share: which tools integration tests need, and what their absence means."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

TOOLS = ("eb", "singularity", "srun", "sbatch", "scontrol", "mksquashfs", "unsquashfs", "flock", "bash")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background: what the tests start would inherit it, and a shell can't undo it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def missing_tools() -> list[str]:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not os.environ.get("BASH_ENV"):
        missing.append("Lmod's init file in BASH_ENV")
    if os.geteuid() == 0:
        missing.append("an ordinary user (this is root)")
    return missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    """In CI a missing tool is a failure; on a laptop it is a skip that names what is missing."""
    if item.get_closest_marker("integration") is None:
        return
    missing = missing_tools()
    if missing:
        message = f"missing: {', '.join(missing)}. Run this through `make test`."
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
