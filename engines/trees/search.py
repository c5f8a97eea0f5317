"""Looking for rows of a negation between two places, for each of some rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engines.columns.grouped import ranges
from engines.trees.buffers import Buffer, chunks, paired
from engines.trees.conditions import holds, prepare
from engines.trees.picked import Picked, Places
from kernels import joins
from optimizer.physical.joins import Conditions

Found = npt.NDArray[Any]


class Search(NamedTuple):
    """For each row, the rows of a negation that lie wholly between two places, under conditions.

    `chunk` is how many pairs are looked at together.
    """

    picked: Picked
    part: Buffer
    negation: Buffer
    conditions: Conditions
    chunk: int

    def latest(self, low: Places, high: Places) -> tuple[Found, int]:
        """Where the last to start of them starts, -1 for none; and how many were tried."""
        return self._find(low, high, latest=True)

    def earliest(self, low: Places, high: Places) -> tuple[Found, int]:
        """Where the first to end of them ends, `NOWHERE` for none; and how many were tried."""
        return self._find(low, high, latest=False)

    def _find(self, low: Places, high: Places, latest: bool) -> tuple[Found, int]:
        none = -1 if latest else joins.NOWHERE
        if not len(self.part) or not len(self.negation):
            return np.full(len(self.part), none, np.int32), 0
        ready = prepare(self.picked, self.negation, self.part, self.conditions, swapped=True)
        if ready.rest:
            return self._bypairs_between(low, high, latest)
        found: tuple[Found, int] = self.picked.kernels.probe(
            ready.left, ready.groups, low, high, ready.right.values, ready.group, ready.tests,
            latest,
        )  # fmt: skip
        return found

    def _bypairs_between(self, low: Places, high: Places, latest: bool) -> tuple[Found, int]:
        found = np.full(len(self.part), -1 if latest else joins.NOWHERE, np.int32)
        tried = 0
        for owner, rows in pairs_between(self.picked, self.negation, low, high, self.chunk):
            tried += len(owner)
            for condition in self.conditions:
                if len(owner):
                    columns = paired(self.part, owner, self.negation, rows)
                    pairs = Buffer(columns, self.part.first[owner], self.part.last[owner])
                    fits = holds(condition, self.picked, pairs)
                    owner, rows = owner[fits], rows[fits]
            if latest:
                np.maximum.at(found, owner, self.negation.first[rows])
            else:
                np.minimum.at(found, owner, self.negation.last[rows])
        return found, tried


def pairs_between(
    picked: Picked, negation: Buffer, low: Places, high: Places, chunk: int
) -> Iterator[tuple[Found, Found]]:
    """Rows, and those of a negation that lie wholly between their places, a chunk at a time."""
    start = picked.kernels.places_from(negation.last, low).astype(np.int64)
    sizes = np.maximum(picked.kernels.places_from(negation.last, high) - start, 0)
    for first, last, _ in chunks(sizes, chunk):
        owner = np.repeat(np.arange(first, last), sizes[first:last])
        rows = ranges(start[first:last], sizes[first:last])
        whole = negation.first[rows] >= low[owner]
        yield owner[whole], rows[whole]
