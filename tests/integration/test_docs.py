"""The transcripts of README and tutorial are what happens."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from transcript import console_blocks, same

from conftest import User, folders_of_pip

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_what_the_demo_prints() -> None:
    done = subprocess.run(["bash", str(ROOT / "testbed/demo")], capture_output=True, text=True, check=True)
    printed = {}
    for part in re.split(r"(?m)^\$ ", done.stdout)[1:]:
        command, _, output = part.partition("\n")
        printed[command] = re.split(r"(?m)^=== ", output)[0]
    steps = console_blocks(ROOT / "README.md")
    assert len(steps) > 8
    for step in steps:
        assert step.command in printed
        if step.output:
            assert same(step.output, printed[step.command]), printed[step.command]


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(user: User) -> None:
    steps = console_blocks(ROOT / "docs/tutorial.md")
    script = "set -o pipefail\n"
    for number, step in enumerate(steps):
        script += f"printf '\\n@@@ %s\\n' {number}\n{step.command}\n"
        script += f"status=$?; if ((status)); then echo failed: $status >&2; exit {number + 100}; fi\n"
    binds = ",".join(folders_of_pip())
    done = user.run(f"export SINGULARITY_BIND={binds} APPTAINER_BIND={binds}\n{script}", check=False, timeout=590)
    printed = re.split(r"(?m)^@@@ \d+\n", done.stdout)[1:]
    assert done.returncode == 0, f"{steps[len(printed) - 1].command}\n{printed[-1]}\n{done.stderr}"
    others = [(step, output) for step, output in zip(steps, printed) if step.output and not same(step.output, output)]
    assert not others, "\n".join(f"$ {step.command}\n{output}" for step, output in others)
