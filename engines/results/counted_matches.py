"""Matches that say how many others were left out for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.columns.vectors import Vector
from engines.results.chunks import MatchChunk
from engines.results.json_text import BoundAliases
from optimizer.ir.query import SUPPRESSED
from workloads import expressions as ex


class CountedMatches(MatchChunk):
    """Matches, each with the number of those that were left out for it."""

    def __init__(self, inner: MatchChunk, left_out: Rows | None = None) -> None:
        super().__init__(inner.of, inner._columns, inner._account, inner._operator)
        self._inner = inner
        self._left_out = np.zeros(len(inner), np.int64) if left_out is None else left_out

    def __len__(self) -> int:
        return len(self._inner)

    def take(self, rows: Rows) -> CountedMatches:
        return CountedMatches(self._inner.take(rows), self._left_out[rows])

    def counted(self, left_out: Rows) -> CountedMatches:
        """The same matches with other numbers."""
        return CountedMatches(self._inner, left_out)

    def partitions(self) -> tuple[Rows, int] | None:
        return self._inner.partitions()

    def key_texts(self, partitions: Rows) -> pa.Array:
        return self._inner.key_texts(partitions)

    def times(self) -> tuple[Rows, Rows, Rows]:
        return self._inner.times()

    def matched(self) -> BoundAliases:
        inner = self._inner.matched()
        most = int(self._left_out.max(initial=0))

        def value(expression: ex.Expression) -> Vector:
            if expression == SUPPRESSED:
                return Vector("int", self._left_out, None, most)
            return inner.value(expression)

        return inner._replace(value=value)

    def last_rows(self) -> Rows:
        return self._inner.last_rows()

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        return self._inner.bound()
