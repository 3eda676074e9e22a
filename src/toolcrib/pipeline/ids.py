"""The ids of calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from operator import attrgetter


def count_ids(prefix: str) -> Callable[[], str]:
    """Gives `prefix` with another number behind it, each time it is called.

    Chained, so that the next id is one call into C and safe from any thread; a hundred numbers at
    a time, so that it only puts two texts together.
    """
    hundreds = map(prefix.__add__, map(str, itertools.count(1)))
    tails = [f"{number:02}" for number in range(100)]
    before = map(attrgetter("__add__"), hundreds)
    return itertools.chain.from_iterable(map(map, before, itertools.repeat(tails))).__next__
