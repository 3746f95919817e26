"""What all tests share: which tools integration tests need, and what their absence means."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections import defaultdict
from functools import cache
from inspect import getsource, isfunction
from pathlib import Path
from typing import Optional

import pytest
from tests.lacking import lacking
from tests.programs import ran
from tests.reporting import Reporting, read_seconds
from tests.sampling import drawn

# What integration tests may need: its name, the commands that are it, and the words that say that a test uses it.
NEEDS = (
    ("EasyBuild", ("eb",), ""),
    ("Apptainer", ("singularity",), ""),
    ("squashfs-tools", ("mksquashfs", "unsquashfs"), ""),
    ("util-linux", ("flock", "bash"), ""),
    ("Slurm", ("srun", "sbatch", "scontrol"), r"srun|sbatch|salloc|squeue|scancel|scontrol|nid00"),
    ("OpenSSL", ("openssl",), r"openssl"),
    ("uv", ("uv",), r"\buv\b"),
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


@cache
def absent(name: str, commands: tuple[str, ...]) -> bool:
    """Return whether this machine lacks a tool; Slurm is one that answers and has the testbed's nodes."""
    if any(shutil.which(command) is None for command in commands):
        return True
    return name == "Slurm" and "nid001" not in ran(["sinfo", "-h", "-N", "-o", "%N"]).stdout.split()


def text_of(item: pytest.Item) -> str:
    """Return the code of a test, of its fixtures, and what of their files they name."""
    manager = item.session._fixturemanager
    functions = [
        fixture.func
        for name in getattr(item, "fixturenames", ())
        for fixture in manager.getfixturedefs(name, item) or ()
    ]
    to_read: list[object] = [getattr(item, "function", None), *functions]
    texts: list[str] = []
    seen: set[int] = set()
    while to_read:
        thing = to_read.pop()
        if id(thing) in seen or thing is None:
            continue
        seen.add(id(thing))
        if isfunction(thing) and Path(thing.__code__.co_filename).is_relative_to(Path(__file__).parent):
            texts.append(getsource(thing))
            to_read += [thing.__globals__.get(name) for name in thing.__code__.co_names]
        elif isinstance(thing, (str, tuple, list, dict)):
            texts.append(repr(thing))
    callspec = getattr(item, "callspec", None)
    return "\n".join([*texts, repr(callspec.params) if callspec else ""])


def missing_for(item: pytest.Item) -> list[str]:
    """Return what an integration test needs and this machine lacks."""
    text = text_of(item)
    missing = [name for name, commands, words in NEEDS if re.search(words, text) and absent(name, commands)]
    if not Path(os.environ.get("BASH_ENV") or "/none").is_file():
        missing.append("Lmod")
    testbed = Path(os.environ.get("SIFMOD_TESTBED", "/opt/sifmod-testbed"))
    if not (testbed / "images" / "demo.sif").is_file():
        missing.append("the testbed's images")
    if "registry" in text.lower() and not (testbed / "registry" / "password").is_file():
        missing.append("the testbed's registry")
    return missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run integration tests where their tools are."""
    if item.get_closest_marker("integration") is None:
        return
    if os.geteuid() == 0:
        lacking("an ordinary user: this is root")
    missing = missing_for(item)
    if missing:
        lacking(f"{', '.join(missing)}: not found")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporting(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Draw what `make test` runs of enumerations; put the files that take longest first."""
    enumerations: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("some") and not item.get_closest_marker("slow"):
            enumerations[item.nodeid.partition("[")[0]].append(item)
    for name, values in enumerations.items():
        (count,) = next(values[0].iter_markers("some")).args
        kept = {item.nodeid for item in drawn(name, values, count)}
        for item in values:
            if item.nodeid not in kept:
                item.add_marker("slow")
    seconds = read_seconds()
    kinds = {(item.nodeid.partition("::")[0], item.get_closest_marker("slow") is not None) for item in items}
    # a file that was never measured may take long
    most = {
        file: sum(seconds[file][is_slow] for name, is_slow in kinds if name == file) if file in seconds else 1e9
        for file, _ in kinds
    }
    items.sort(key=lambda item: most[item.nodeid.partition("::")[0]], reverse=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which every test was skipped, as pytest itself does where none was found."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    if exitstatus == pytest.ExitCode.OK and not any(reporter.stats.get(kind) for kind in ("passed", "xfailed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
