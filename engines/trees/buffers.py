"""Buffers of partial matches: a column of places for each component, sorted by the last event.

The column of a group has the places of all its events, and where those of each row begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engines.columns.grouped import Groups
from engines.trees.picked import Places

Moments = npt.NDArray[np.int64]
Column: TypeAlias = Places | Groups


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Rows with the places of their components, their first and their last event.

    `earliest` is the moment that a row to the left must not end before, and `latest` the one that
    a row to the right must not start behind, where a negation stands there.
    """

    columns: tuple[Column, ...]
    first: Places
    last: Places
    earliest: Moments | None = None
    latest: Moments | None = None

    def __len__(self) -> int:
        return len(self.last)

    def take(self, rows: npt.NDArray[np.integer]) -> Buffer:
        columns = tuple(_taken(column, rows) for column in self.columns)
        return Buffer(
            columns,
            _same(self.first, self, columns, rows),
            _same(self.last, self, columns, rows),
            None if self.earliest is None else self.earliest[rows],
            None if self.latest is None else self.latest[rows],
        )

    def sorted(self) -> Buffer:
        """The rows by their last event."""
        if (self.last[1:] >= self.last[:-1]).all():
            return self
        return self.take(np.argsort(self.last, kind="stable"))

    def gated(self, earliest: Moments | None, latest: Moments | None) -> Buffer:
        """The rows with the moments of one more negation."""
        if earliest is not None and self.earliest is not None:
            earliest = np.maximum(earliest, self.earliest)
        if latest is not None and self.latest is not None:
            latest = np.minimum(latest, self.latest)
        return replace(
            self,
            earliest=self.earliest if earliest is None else earliest,
            latest=self.latest if latest is None else latest,
        )


def first_of(column: Column) -> Places:
    """The first event that each row has in a column."""
    return column.first if isinstance(column, Groups) else column


def last_of(column: Column) -> Places:
    """The last event that each row has in a column."""
    return column.last if isinstance(column, Groups) else column


def of_places(places: Places) -> Buffer:
    """Single events."""
    return Buffer((places,), places, places)


def paired(
    left: Buffer,
    rows: npt.NDArray[np.integer],
    right: Buffer,
    others: npt.NDArray[np.integer],
) -> tuple[Column, ...]:
    """The columns of pairs of rows."""
    return (
        *(_taken(column, rows) for column in left.columns),
        *(_taken(column, others) for column in right.columns),
    )


def in_order(left: Buffer, rows: Places, right: Buffer, others: Places) -> Buffer:
    """Pairs of rows of which the right one follows the left one."""
    columns = paired(left, rows, right, others)
    return Buffer(
        columns,
        _same(left.first, left, columns, rows),
        _same(right.last, right, columns[len(left.columns) :], others),
        None if left.earliest is None else left.earliest[rows],
        None if right.latest is None else right.latest[others],
    )


def together(left: Buffer, rows: Places, right: Buffer, others: Places) -> Buffer:
    """Pairs of rows in any order."""
    columns = paired(left, rows, right, others)
    return Buffer(
        columns,
        np.minimum(left.first[rows], right.first[others]),
        np.maximum(left.last[rows], right.last[others]),
    )


def concatenated(parts: Sequence[Buffer], width: int) -> Buffer:
    """The rows of several buffers, one behind the other; `width` columns where there are none."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, np.int32)
        return Buffer((none,) * width, none, none)
    columns = tuple(
        _behind_each_other([part.columns[i] for part in parts])
        for i in range(len(parts[0].columns))
    )
    earliest = [part.earliest for part in parts if part.earliest is not None]
    latest = [part.latest for part in parts if part.latest is not None]
    return Buffer(
        columns,
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.last for part in parts]),
        np.concatenate(earliest) if earliest else None,
        np.concatenate(latest) if latest else None,
    )


def chunks(counts: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int, int]]:
    """Ranges of rows that have no more than `most` together, and how many; one row at the least."""
    total = np.cumsum(counts)
    if not len(total) or not total[-1]:
        return
    start, done = 0, 0
    while done < total[-1]:
        stop = max(start + 1, int(np.searchsorted(total, done + most, "right")))
        many = int(total[stop - 1]) - done
        if many:
            yield start, stop, many
        start, done = stop, int(total[stop - 1])


def _behind_each_other(columns: list[Column]) -> Column:
    groups = [column for column in columns if isinstance(column, Groups)]
    if groups:
        return Groups.concatenated(groups)
    return np.concatenate([column for column in columns if not isinstance(column, Groups)])


def _taken(column: Column, rows: npt.NDArray[np.integer]) -> Column:
    return column.take(rows) if isinstance(column, Groups) else column[rows]


def _same(
    column: Places,
    buffer: Buffer,
    taken: tuple[Column, ...],
    rows: npt.NDArray[np.integer],
) -> Places:
    """A column of taken rows, which is mostly that of a component and need not be taken again."""
    for i, known in enumerate(buffer.columns):
        if column is known:
            again = taken[i]
            assert not isinstance(again, Groups)
            return again
    found: Places = column[rows]
    return found
