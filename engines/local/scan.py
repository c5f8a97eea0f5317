"""What the steps of a query work on: the arranged events, the window's reach, and the limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engines.local.columns import Columns
from engines.local.index import Index, index_of
from engines.local.layout import Layout, Rows
from engines.local.vectors import Vector
from optimizer.ir.pattern import Symbol
from workloads.errors import TooLargeError


@dataclass(frozen=True)
class Limits:
    """How much is done at once, and how much is too much."""

    chunk: int = 1 << 18  # partial matches that are looked at together
    join: int = 30_000_000  # extensions of one partial match
    results: int = 30_000_000  # rows that a query returns
    work: int = 20_000_000_000  # partial matches that a query makes in all
    search: int = 8  # candidates that are tried before a search by value is worth it


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows of a symbol in order; `before[r]` is how many of them come before row r."""

    rows: Rows
    before: Rows
    following: Rows  # of each, the place of the first that is not simultaneous with it


class Arranged:
    """The events in one layout, with the columns and candidates that queries share."""

    def __init__(self, layout: Layout, columns: Columns) -> None:
        self.layout, self.columns = layout, columns
        self._vectors: dict[str, Vector] = {}
        self._candidates: dict[Symbol, Candidates] = {}
        self._overlaps: dict[frozenset[Symbol], bool] = {}
        self._reach: dict[int, tuple[Rows, Rows]] = {}
        self._indexes: dict[tuple[Symbol, str, str], Index | None] = {}

    def vector(self, name: str) -> Vector:
        if name not in self._vectors:
            self._vectors[name] = self.columns.vector(name).take(self.layout.order)
        return self._vectors[name]

    def candidates(self, symbol: Symbol) -> Candidates:
        if symbol not in self._candidates:
            mask = self.columns.instances(symbol)[self.layout.order]
            before = np.zeros(len(mask) + 1, np.int64)
            np.cumsum(mask, out=before[1:])
            rows = np.flatnonzero(mask)
            self._candidates[symbol] = Candidates(rows, before, before[self.layout.after[rows]])
        return self._candidates[symbol]

    def index(self, symbol: Symbol, attribute: str, asked: str) -> Index | None:
        """The symbol's candidates by an attribute, for looking up the values of another."""
        how = (symbol, attribute, asked)
        if how not in self._indexes:
            rows = self.candidates(symbol).rows
            self._indexes[how] = index_of(rows, self.vector(attribute), self.vector(asked))
        return self._indexes[how]

    def overlap(self, first: Symbol, second: Symbol) -> bool:
        """Is there an event of both symbols?"""
        both = frozenset((first, second))
        if both not in self._overlaps:
            instances = self.columns.instances
            self._overlaps[both] = bool((instances(first) & instances(second)).any())
        return self._overlaps[both]

    def reach(self, width: int) -> tuple[Rows, Rows]:
        if width not in self._reach:
            self._reach[width] = self.layout.reach(width)
        return self._reach[width]


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
        raise TooLargeError(
            f"query {self.query} is too large for the local engine: {why}; "
            "shorten its window, partition it by a key, or add conditions"
        )
