"""Joins with a window for each side, sessions, and ranks that count only some types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engines.reference.values import Binding, Row, true
from optimizer.ir.pattern import Event, Symbol, events
from optimizer.ir.query import JoinWindows, Query, Window
from workloads.workload import Stream


def is_instance(stream: Stream, symbol: Symbol, row: Row) -> bool:
    """Is an event of a symbol's type, and does it satisfy its predicates?"""
    condition = stream.types.get(symbol.type)
    of_type = stream.type is not None and str(row.values[stream.type]) == symbol.type
    if not of_type and not (condition is not None and true(condition, {"": (row,)})):
        return False
    return all(true(predicate, {"": (row,)}) for predicate in symbol.predicates)


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of a join: its times, and what each side is bound to."""

    times: dict[str, Any]
    bound: Binding


def joined_pairs(
    query: Query, join: JoinWindows, stream: Stream, part: list[Row], tick: int
) -> Iterator[Pair]:
    """The pairs of a partition; for an outer join each left event without partner too."""
    left, right = events(query.pattern)
    lefts = _instances(stream, left, part)
    rights = _instances(stream, right, part)
    for one in lefts:
        alone = True
        for other in rights:
            bound: Binding = {left.alias: (one,), right.alias: (other,)}
            if one is other or not all(true(c, bound) for c in query.conditions):
                continue
            if _is_open(one, other, lefts, rights, join, tick):
                alone = False
                first, last = sorted((one.key[0], other.key[0]))
                yield Pair({"start": first, "end": last, "time": last}, bound)
        if alone and join.outer:
            closes = _closing(one, join.left, lefts, part, tick)
            times = {"start": one.key[0], "end": one.key[0], "time": closes}
            yield Pair(times, {left.alias: (one,)})


def _instances(stream: Stream, event: Event, part: list[Row]) -> list[Row]:
    return [row for row in part if is_instance(stream, event.symbol, row)]


def _is_open(
    one: Row, other: Row, lefts: list[Row], rights: list[Row], join: JoinWindows, tick: int
) -> bool:
    """Is the earlier event in the window of its own side at the later one's time?"""
    if one.key == other.key:
        return True
    if one.key < other.key:
        return _holds(join.left, lefts, one, other, tick)
    return _holds(join.right, rights, other, one, tick)


def _holds(window: Window, side: list[Row], earlier: Row, later: Row, tick: int) -> bool:
    if not window.is_count:
        return later.key[0] - earlier.key[0] < window.ticks(tick)
    return _newer(side, earlier, lambda row: row.key <= later.key) < window.size


def _newer(side: list[Row], event: Row, among: Callable[[Row], bool]) -> int:
    """How many ranks the newest of some events of a side is behind one of them."""
    ranks = {row.key: 1 + sum(other.key < row.key for other in side) for row in side}
    return max(ranks[row.key] for row in side if among(row)) - ranks[event.key]


def _closing(event: Row, window: Window, side: list[Row], part: list[Row], tick: int) -> int:
    """When an event leaves the window of its side: at the last event where it never does."""
    if not window.is_count:
        return event.key[0] + window.ticks(tick)
    closing = [
        row.key[0]
        for row in side
        if event.key < row.key
        and _newer(side, event, lambda other, row=row: other.key <= row.key) >= window.size  # type: ignore[misc]
    ]
    return min(closing) if closing else max(row.key[0] for row in part)


def sessions(query: Query, stream: Stream, part: list[Row], tick: int) -> Iterator[list[Row]]:
    """The events of the query's types, split where two successive ones are too far apart."""
    gap = query.window.ticks(tick)
    types = {Symbol(event.symbol.type) for event in events(query.pattern)}
    own = [row for row in part if any(is_instance(stream, symbol, row) for symbol in types)]
    session: list[Row] = []
    for row in sorted(own, key=lambda row: row.key):
        if session and row.key[0] - session[-1].key[0] >= gap:
            yield session
            session = []
        session.append(row)
    if session:
        yield session


def ranked_by(query: Query, stream: Stream, ordered: list[Row]) -> list[Row]:
    """The events with ranks among those of the counted types.

    One of another type has the rank of the last counted one that is not after it.
    """
    symbols = [Symbol(name) for name in query.window.of]
    counted = [row for row in ordered if any(is_instance(stream, s, row) for s in symbols)]
    found = []
    for row in ordered:
        before = [c for c in counted if c.key <= row.key]
        rank = 1 + sum(c.key < before[-1].key for c in counted) if before else 0
        found.append(Row(row.key, rank, row.values))
    return found
