"""What the steps of a query work on: the arranged events, the window's reach, and the limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from workloads.errors import TooLargeError

if TYPE_CHECKING:  # the limits are read by commands that compile nothing
    from engines.columns.arranged import Arranged
    from engines.columns.layout import Rows


@dataclass(frozen=True)
class Limits:
    """How much is done at once, and how much is too much."""

    chunk: int = 1 << 18  # partial matches that are looked at together
    join: int = 30_000_000  # extensions of one partial match
    results: int = 30_000_000  # rows that a query returns
    work: int = 20_000_000_000  # partial matches that a query makes in all
    search: int = 8  # candidates that are tried before a search by value is worth it


class Scan:
    """One query over arranged events."""

    def __init__(self, arranged: Arranged, width: int, query: str, limits: Limits) -> None:
        self.arranged, self.layout, self.columns = arranged, arranged.layout, arranged.columns
        self.width, self.query, self.limits = width, query, limits
        self.reach_low, self.reach_high = arranged.reach(width)
        self._work = 0

    def chunks(self, sizes: Rows, what: str) -> Iterator[slice]:
        """Ranges of partial matches that together have no more than a chunk of extensions."""
        total = np.cumsum(sizes)
        if not len(total) or not total[-1]:
            return
        self.count_work(int(total[-1]))
        if total[-1] <= self.limits.chunk:
            yield slice(0, len(sizes))
            return
        largest = int(sizes.max())
        if largest > self.limits.join:
            self.refuse(f"one partial match has {largest:,} extensions by {what}")
        done, start = 0, 0
        while start < len(sizes):
            end = int(np.searchsorted(total, done + self.limits.chunk, "right"))
            end = max(end, start + 1)
            yield slice(start, end)
            start, done = end, int(total[end - 1])

    def count_work(self, partial_matches: int) -> None:
        self._work += partial_matches
        if self._work > self.limits.work:
            self.refuse(f"it has made {self._work:,} partial matches")

    def refuse(self, why: str) -> None:
        """Raise the error that says what grew too large, and what to do."""
        refuse(self.query, why)


def refuse(query: str, why: str) -> NoReturn:
    """Raise the error that says what of a query grew too large, and what to do."""
    raise TooLargeError(
        f"query {query} is too large for the local engine: {why}; "
        "shorten its window, partition it by a key, or add conditions"
    )
