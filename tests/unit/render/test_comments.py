"""A value in a comment of a template can't end the comment: it goes through the filter that keeps it on one line."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
TEMPLATES = sorted(TOP.glob("wrappers/**/*.j2"))

_COMMENT = re.compile(r"\s*#")
# `comment` is the last filter, or the place holds only words of the template itself and numbers.
_SAFE = re.compile(r"""[^|]*\|\s*comment|"[^"]*"\s+if\s.*|[\w.]+\s*\|\s*length""")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(TOP)))
def test_values_in_comments_are_filtered(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if _COMMENT.match(line):
            for place in re.findall(r"\{\{\s*(.*?)\s*\}\}", line):
                assert _SAFE.fullmatch(place), line
