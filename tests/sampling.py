"""Enumerations of which `make test` runs a few, drawn anew for each run, and `make test-all` every one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TypeVar

# The header of a run prints it; set, it makes another run draw the same.
SEED = "SIFMOD_TEST_SEED"
T = TypeVar("T")


# Workers have it from the process that has started them.
seed = os.environ.setdefault(SEED, str(random.randrange(10**6)))  # noqa: S311


def drawn(name: str, values: Iterable[T], count: int) -> list[T]:
    """Return `count` of the values, in their order; the same for a name and the run's seed."""
    known = list(values)
    places = random.Random(f"{seed} {name}").sample(range(len(known)), min(count, len(known)))  # noqa: S311
    return [known[place] for place in sorted(places)]
