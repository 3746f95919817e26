"""The transcript of the README is what happens; that of the tutorial is looked at in test_torch."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from picture import FOLDER, make_picture, picture, session
from rich.text import Text
from transcript import console_blocks, same

from conftest import GREETING, make_wheel

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_what_the_demo_prints() -> None:
    done = subprocess.run(["bash", str(ROOT / "testbed/demo")], capture_output=True, text=True, check=True)
    printed = {}
    for part in re.split(r"(?m)^\$ ", done.stdout)[1:]:
        command, _, output = part.partition("\n")
        printed[command] = re.split(r"(?m)^=== ", output)[0]
    steps = console_blocks(ROOT / "README.md")
    # in this order, so who types them one after the other gets what the demo gets
    assert [step.command for step in steps] == [
        command for command in printed if command in {step.command for step in steps}
    ]
    assert len(steps) == 4
    for step in steps:
        if step.output:
            assert same(step.output, printed[step.command]), printed[step.command]


def plain(text: str) -> str:
    """A session without colours, and without the numbers that differ from run to run."""
    return re.sub(r"\d+(\.\d+)?", "0", Text.from_ansi(text).plain)


@pytest.mark.slow
def test_the_picture_of_a_terminal_is_of_what_is_printed(tmp_path: Path) -> None:
    make_wheel(tmp_path, *GREETING)
    if os.environ.get("SIFMOD_MAKE_PICTURE"):
        make_picture(tmp_path)
        return
    kept = (FOLDER / "terminal.txt").read_text()
    assert (FOLDER / "terminal.svg").read_text() == picture(kept)
    assert plain(session(tmp_path)) == plain(kept)
