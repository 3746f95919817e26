"""Long work while `eb` runs: within EasyBuild's own display, or as trace output."""

import os
import re
import sys

import pytest
from tests.programs import ran

pytest.importorskip("easybuild.tools.output")

# EasyBuild keeps its settings in the process, so each case is a process of its own.
CODE = """
import sys
from unittest import mock
from easybuild.tools.options import set_up_configuration
from easybuild.tools.output import rich_live_cm
from sifmod.eb.progress import easybuild_progress
from sifmod.text import progress
set_up_configuration(args=sys.argv[1:], silent=True)
progress._EVERY = 0.01
class Terminal(type(sys.stdout)):
    def isatty(self):
        return True
if {terminal}:
    sys.stdout = Terminal(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
with rich_live_cm():
    with easybuild_progress().step("copying [red]x\\x1b]0;owned", size=8_000_000) as step:
        step.advance(2_000_000)
        import time; time.sleep({pause})
    with easybuild_progress().step("pulling y") as step:
        step.tell("INFO: [bold]layer")
        time.sleep({pause})
"""


def shown(*options: str, terminal: bool) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EASYBUILD_")}
    environ.update(TERM="xterm", COLUMNS="120", PYTHONIOENCODING="utf-8")
    done = ran(
        [
            sys.executable,
            "-c",
            CODE.format(terminal=terminal, pause=2),
            *options,
            "--allow-use-as-root-and-accept-consequences",
        ],
        env=environ,
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"\x1b\[[\d;]*m", "", done.stdout)


def test_on_a_terminal_the_work_is_one_of_easybuild_s_bars() -> None:
    output = shown(terminal=True)
    assert r"copying [red]x\x1b]0;owned: 2 MB of 8 MB" in output
    assert re.search(r"pulling y: 0:0\d passed: INFO: \[bold\]layer", output)
    assert "\x1b]0;" not in output
    assert "  >> ..." not in output


@pytest.mark.parametrize(
    ("options", "terminal"),
    [
        ([], False),
        (["--output-style=basic"], True),
        (["--disable-show-progress-bar"], True),
        (["--output-style=no_color"], True),
    ],
)
def test_elsewhere_it_is_trace_output(options: list[str], terminal: bool) -> None:
    output = shown(*options, terminal=terminal)
    assert r"  >> ... copying [red]x\x1b]0;owned: 2 MB of 8 MB" in output
    assert re.search(r"  >> \.\.\. pulling y: 0:0\d passed", output)
