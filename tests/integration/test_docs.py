"""The transcript of the README is what happens; that of the tutorial is looked at in test_torch."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from transcript import console_blocks, same

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_what_the_demo_prints() -> None:
    done = subprocess.run(["bash", str(ROOT / "testbed/demo")], capture_output=True, text=True, check=True)
    printed = {}
    for part in re.split(r"(?m)^\$ ", done.stdout)[1:]:
        command, _, output = part.partition("\n")
        printed[command] = re.split(r"(?m)^=== ", output)[0]
    steps = console_blocks(ROOT / "README.md")
    # who types them one after the other gets what the demo gets
    acts = re.compile(r"(eb|module|(un)?make-squashfs|rm|pip|singularity exec \$SIF pip)\b")
    assert [step.command for step in steps if acts.match(step.command)] == list(filter(acts.match, printed))
    assert len(steps) > 8
    for step in steps:
        assert step.command in printed
        if step.output:
            assert same(step.output, printed[step.command]), printed[step.command]
