"""Events in one layout, with what queries over it have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engines.columns.index import Index, index_of
from engines.columns.instances import Columns
from engines.columns.layout import Layout, Rows
from engines.columns.vectors import Vector
from optimizer.ir.pattern import Symbol


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
