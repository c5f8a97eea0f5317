"""Joins of two sides, each with its own window: for each left event a range of right ones.

All queries of a unit have the same sides, key and equalities. The pairs of the widest windows are
made once; each query keeps those in its own windows that satisfy its other conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.account import Account
from engines.columns.columns import Columns
from engines.columns.groups import EventGroups, ranges
from engines.columns.layout import ArrangedEvents, Layout, Rows
from engines.columns.vectors import Vector, evaluate, truth
from engines.matching.passes.input import PassInput
from engines.program import PassUnit
from engines.results.chunks import NEVER, MatchChunk, RowChunk
from engines.results.json_text import BoundAliases, KeyTexts
from kernels.orders.cpu import sort_by_code
from kernels.pairing.cpu import partner_ranges
from optimizer.engines.joins import equalities, sides
from optimizer.ir.query import JoinWindows, Query
from workloads import expressions as ex

_PAIRS_AT_ONCE = 1 << 20
_COMPARABLE = ("int", "string", "time", "bool")


def joined_chunks(unit: PassUnit, given: PassInput) -> Iterator[RowChunk]:
    """The rows of a unit's joins, as they are found."""
    first = unit.queries[0]
    paired = PairedSides.of(first, given.arranged(first))
    windows = [JoinRanges.of(query, paired) for query in unit.queries]
    low = np.minimum.reduce([window.low for window in windows])
    high = np.maximum.reduce([window.high for window in windows])
    found = [np.zeros(len(low), bool) if w.join.outer else None for w in windows]
    many = len(windows) > 1
    for start, stop in _portions(high - low):
        sizes = high[start:stop] - low[start:stop]
        lefts = np.repeat(np.arange(start, stop), sizes)
        rights = ranges(low[start:stop], sizes)
        other = paired.left[lefts] != paired.right[rights]
        for window, partnered in zip(windows, found, strict=True):
            if window.query.name in given.context.ledger.stopped:
                continue
            kept = other
            if many:
                kept = kept & (rights >= window.low[lefts]) & (rights < window.high[lefts])
            pairs = _tested(window.query, paired, lefts, rights, kept)
            if partnered is not None:
                partnered[pairs[0]] = True
            if len(pairs[0]):
                yield _chunk(window.query, paired, given, *pairs)
    for window, partnered in zip(windows, found, strict=True):
        if partnered is not None and not partnered.all():
            yield _alone(window, paired, given, np.flatnonzero(~partnered))


@dataclass(frozen=True, eq=False)
class PairedSides:
    """The rows of both sides in a layout, the right ones by the group that they are joined in.

    A group has the events of one partition that are equal in all that is to be equal; `groups` are
    those of the left rows, -1 for none. `right` has the rows of groups, and `waiting` all rows of
    the right side: what a window of events counts.
    """

    arranged: ArrangedEvents
    left: Rows
    right: Rows
    waiting: Rows
    groups: Rows
    starts: Rows

    @property
    def layout(self) -> Layout:
        return self.arranged.layout

    @staticmethod
    def of(query: Query, arranged: ArrangedEvents) -> PairedSides:
        left, right = (arranged.candidates(side.symbol).rows for side in sides(query))
        layout = arranged.layout
        codes = [layout.partition[left], layout.partition[right]]
        number = len(layout.starts) - 1
        for one, other in equalities(query):
            codes, number = _refined(
                codes, number, arranged.vector(one).take(left), arranged.vector(other).take(right)
            )
        order, starts = sort_by_code(codes[1].astype(np.int32), number)
        # Only groups that the right side has keep a number.
        present = np.zeros(number, bool)
        present[codes[1][codes[1] >= 0]] = True
        place = np.where(present, np.cumsum(present) - 1, -1)
        groups = np.where(codes[0] >= 0, np.append(place, -1)[codes[0]], -1)
        return PairedSides(arranged, left, right[order], right, groups, starts)


def _refined(
    codes: Sequence[Rows], number: int, left: Vector, right: Vector
) -> tuple[list[Rows], int]:
    """Numbers of groups by a further equality, where its values can be numbered."""
    if left.kind != right.kind or left.kind not in _COMPARABLE:
        return list(codes), number  # asked of each pair, as all conditions are
    values = np.concatenate([left.values, right.values])
    known = np.concatenate([left.present(), right.present()])
    before = np.concatenate(codes)
    _, value = np.unique(values, return_inverse=True)
    both = np.where(known & (before >= 0), before * (int(value.max(initial=0)) + 1) + value, -1)
    found, place = np.unique(both, return_inverse=True)
    absent = int(len(found) > 0 and found[0] < 0)
    place = place - absent
    return [place[: len(left.values)], place[len(left.values) :]], len(found) - absent


@dataclass(frozen=True, eq=False)
class JoinRanges:
    """The partners of each left row in the windows of a query, as ranges of the right rows."""

    query: Query
    join: JoinWindows
    low: Rows
    high: Rows
    closes: Rows  # when each left row's window closes, as far as a time or a rank

    @staticmethod
    def of(query: Query, paired: PairedSides) -> JoinRanges:
        assert query.join is not None
        layout, tick = paired.layout, paired.arranged.columns.events.tick
        left, right, join = paired.left, paired.right, query.join
        if join.right.is_count:
            ranks = SideRanks.of(layout, paired.waiting)
            enters, opens = ranks.until[right], ranks.until[left] - join.right.size
        else:
            enters, opens = layout.ticks[right], layout.ticks[left] - join.right.ticks(tick)
        if join.left.is_count:
            ranks = SideRanks.of(layout, left)
            leaves, closes = ranks.until[right], ranks.until[left] + join.left.size
        else:
            leaves, closes = layout.ticks[right], layout.ticks[left] + join.left.ticks(tick)
        low, high = partner_ranges(paired.groups, paired.starts, enters, leaves, opens, closes)
        return JoinRanges(query, join, low, high, closes)


@dataclass(frozen=True, eq=False)
class SideRanks:
    """For each row of a layout the rank of the last event of a side that is not after it.

    Ranks count the events of the side in a partition; simultaneous ones have that of the first.
    """

    until: Rows

    @staticmethod
    def of(layout: Layout, side: Rows) -> SideRanks:
        number = np.zeros(len(layout) + 1, np.int64)
        number[side + 1] = 1
        before = np.cumsum(number)  # events of the side before each row, of all partitions
        own = before[layout.starts[:-1]][layout.partition]
        rank = np.zeros(len(layout), np.int64)
        rank[side] = before[layout.block[side]] - own[side] + 1
        # The newest of each row: that of the last event of the side up to the end of its block.
        upto = before[layout.after[:-1]]
        newest = np.append(side, 0)[np.maximum(upto, 1) - 1]
        return SideRanks(np.where(upto > own, rank[newest], 0))


def _portions(sizes: Rows) -> Iterator[tuple[int, int]]:
    """Ranges of left rows with not too many pairs each."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        done = int(total[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + _PAIRS_AT_ONCE, "right")))
        yield start, stop
        start = stop


def _tested(
    query: Query, paired: PairedSides, lefts: Rows, rights: Rows, kept: npt.NDArray[np.bool_]
) -> tuple[Rows, Rows]:
    """The pairs, of those that are kept, that satisfy the query's conditions."""
    tied = set(equalities(query))
    if not kept.all():
        lefts, rights = lefts[kept], rights[kept]
    for condition in query.conditions:
        if not len(lefts):
            break
        if _is_grouped(condition, query, tied, paired):
            continue
        found = _value(condition, query, paired, paired.left[lefts], paired.right[rights])
        holds = np.broadcast_to(truth(found), len(lefts))
        if not holds.all():
            lefts, rights = lefts[holds], rights[holds]
    return lefts, rights


def _is_grouped(
    condition: ex.Expression, query: Query, tied: set[tuple[str, str]], paired: PairedSides
) -> bool:
    """Do groups see to it that the condition holds?"""
    match condition:
        case ex.Comparison("=", ex.Attribute(one, name), ex.Attribute(_, other)):
            names = (name, other) if one == sides(query)[0].alias else (other, name)
            kinds = [paired.arranged.vector(each).kind for each in names]
            return names in tied and kinds[0] == kinds[1] and kinds[0] in _COMPARABLE
        case _:
            return False


def _value(
    expression: ex.Expression, query: Query, paired: PairedSides, left: Rows, right: Rows | None
) -> Vector:
    """An expression over both sides, for rows of the layout."""
    one = sides(query)[0].alias
    arranged = paired.arranged

    def attribute(node: ex.Attribute) -> Vector:
        rows = left if node.alias == one else right
        if rows is None:
            return Vector("null", np.zeros(len(left), bool), np.ones(len(left), bool))
        return arranged.vector(node.name).take(rows)

    return evaluate(expression, attribute, arranged.columns.texts)


def _chunk(
    query: Query, paired: PairedSides, given: PassInput, lefts: Rows, rights: Rows
) -> JoinedPairs:
    left, right = paired.left[lefts], paired.right[rights]
    made = _JoinRows(query, paired, given.columns, given.context.account, given.outputs[query.name])
    ends = paired.layout.ticks[np.maximum(left, right)]
    return JoinedPairs(made, left, right, ends)


def _alone(window: JoinRanges, paired: PairedSides, given: PassInput, lefts: Rows) -> JoinedPairs:
    """Left events without partner, certain when their windows close."""
    query, layout, left = window.query, paired.layout, paired.left[lefts]
    made = _JoinRows(query, paired, given.columns, given.context.account, given.outputs[query.name])
    times = window.closes[lefts]
    if not window.join.left.is_count:
        return JoinedPairs(made, left, None, times)
    until = SideRanks.of(layout, paired.left).until
    is_closed = times <= until[layout.starts[layout.partition[left] + 1] - 1]
    times = _rank_times(layout, until, left, times)
    return JoinedPairs(made, left, None, times, np.where(is_closed, times, NEVER))


def _rank_times(layout: Layout, until: Rows, rows: Rows, ranks: Rows) -> Rows:
    """When the rank of each row's partition gets there; at its last event where it does not."""
    found = np.empty(len(rows), np.int64)
    for partition in np.unique(layout.partition[rows]).tolist():
        own = layout.partition[rows] == partition
        start, stop = layout.starts[partition], layout.starts[partition + 1]
        place = np.searchsorted(until[start:stop], ranks[own]) + start
        found[own] = layout.ticks[np.minimum(place, stop - 1)]
    return found


@dataclass(frozen=True, eq=False)
class _JoinRows:
    """What the rows of a query are made with."""

    query: Query
    paired: PairedSides
    columns: Columns
    account: Account
    output: str


class JoinedPairs(MatchChunk):
    """Pairs of a join as rows of its layout; without `right`, left events that have no partner.

    They are `certain` at other times than at `times` where a window of events is never full.
    """

    def __init__(
        self,
        made: _JoinRows,
        left: Rows,
        right: Rows | None,
        times: Rows,
        certain: Rows | None = None,
    ) -> None:
        super().__init__(made.query, made.columns, made.account, made.output)
        self._made, self._left, self._right, self._times = made, left, right, times
        self._certain = certain
        self._layout = made.paired.layout

    def __len__(self) -> int:
        return len(self._left)

    def take(self, rows: Rows) -> JoinedPairs:
        right = None if self._right is None else self._right[rows]
        certain = None if self._certain is None else self._certain[rows]
        return JoinedPairs(self._made, self._left[rows], right, self._times[rows], certain)

    def decided(self) -> Rows:
        return super().decided() if self._certain is None else self._certain

    def partitions(self) -> tuple[Rows, int] | None:
        if not self.of.key:
            return None
        return self._layout.partition[self._left], len(self._layout.starts) - 1

    def key_texts(self, partitions: Rows) -> pa.Array:
        return KeyTexts(self._events, self._layout, self.of.key).of(partitions)

    def times(self) -> tuple[Rows, Rows, Rows]:
        first = last = self._layout.ticks[self._left]
        if self._right is not None:
            other = self._layout.ticks[self._right]
            first, last = np.minimum(first, other), np.maximum(last, other)
        return first, last, self._times

    def last_rows(self) -> Rows:
        last = self._left if self._right is None else np.maximum(self._left, self._right)
        rows: Rows = self._layout.order[last]
        return rows

    def matched(self) -> BoundAliases:
        left, right = sides(self.of)
        order = self._layout.order
        columns: dict[str, npt.NDArray[Any] | EventGroups] = {left.alias: order[self._left]}
        if self._right is not None:
            columns[right.alias] = order[self._right]
        made = self._made

        def value(expression: ex.Expression) -> Vector:
            return _value(expression, self.of, made.paired, self._left, self._right)

        return BoundAliases(len(self), columns, value)

    def aliases(self) -> Mapping[str, npt.NDArray[Any] | EventGroups]:
        return self.matched().columns

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        return (1 if self._right is None else 2), ()
