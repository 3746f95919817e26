"""Transcripts of the documentation: what is typed, and what is printed, with `...` for what was left out."""

import doctest
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """A command as it was typed, and what it printed."""

    command: str
    output: str


def console_blocks(path: Path) -> list[Step]:
    """Return the steps of all blocks that are fenced as `console`, or indented and begin with `$`."""
    text = path.read_text()
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)
    blocks += [re.sub(r"(?m)^    ", "", block) for block in re.findall(r"(?:^    .*\n)+", text, re.M)]
    steps = []
    for block in blocks:
        if block.startswith("$ "):
            for typed in re.split(r"(?m)^\$ ", block)[1:]:
                lines = typed.splitlines()
                more = 1
                while more < len(lines) and re.match(r">( |$)", lines[more]):
                    more += 1
                command = "\n".join([lines[0], *(line[2:] for line in lines[1:more])])
                steps.append(Step(command, "".join(f"{line}\n" for line in lines[more:])))
    return steps


def same(expected: str, printed: str) -> bool:
    """Whether a text is what a transcript shows."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(expected, printed, options)
