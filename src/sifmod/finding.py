"""A finding: what a check found, why that matters, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OK = "ok"
NOTE = "note"  # worth knowing; nothing is wrong
WARNING = "warning"  # works, but not as well as it should, or not everything could be checked
PROBLEM = "problem"  # does not work
SEVERITIES = (OK, NOTE, WARNING, PROBLEM)


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    severity: str  # one of `SEVERITIES`
    topic: str  # what was checked, in a word or two
    what: str
    why: str = ""  # why that matters; empty if it does not
    remedy: str = ""  # what to do; empty if there is nothing to do
    origin: str = ""  # file and line, or the variable, of the setting that it is about; empty if it is about none


def worst(findings: Iterable[Finding]) -> str:
    """Return the highest severity of the findings; `ok` if there are none."""
    return max((finding.severity for finding in findings), key=SEVERITIES.index, default=OK)
