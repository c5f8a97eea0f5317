"""Funnels by their definition: every attempt of every key is tried.

An item is an event at a step that it is an instance of. An attempt is an item of each step from the
first on, none before the one before it, all in the window that begins with the first, with nothing
that is excluded between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from engines.reference.values import Row
from optimizer.ir.funnels import LEVEL, FunnelClause, excluded_symbols, step_symbols
from optimizer.ir.pattern import Symbol
from optimizer.ir.query import Funnel, Query

Instances = Callable[[Symbol], Sequence[Row]]
Partition = tuple[dict[str, Any] | None, list[Row], Instances]
NO_STEP = -1


@dataclass(frozen=True, eq=False)
class Item:
    """An event at a step, or at none."""

    event: Row
    step: int

    @property
    def moment(self) -> tuple[int, ...]:
        return self.event.key


class Progress(NamedTuple):
    """How far a key comes: the time from the step before to each step that it reaches."""

    gaps: tuple[int, ...]
    first: tuple[Row, ...]  # its first events of the first step, which are simultaneous
    last: int  # time of its last event

    @property
    def level(self) -> int:
        return len(self.gaps)


def funnel_rows(query: Query, partitions: Sequence[Partition], tick: int) -> list[dict[str, Any]]:
    """The rows of a funnel over the events of each key."""
    assert isinstance(query.output, Funnel)
    clause = query.output.funnel
    width = query.window.ticks(tick)
    found = [(key, _progress(query, clause, part, of, width)) for key, part, of in partitions]
    rows: list[dict[str, Any]] = []
    if "levels" in clause.gives:
        for key, progress in found:
            level = float(progress.level)
            rows.append({"key": key} | _row(progress.last, LEVEL, level, None))
    if "steps" in clause.gives:
        for group, members in _groups(clause, [progress for _, progress in found]):
            rows += [{"key": group} | row for row in _step_rows(clause, members)]
    return rows


def _progress(
    query: Query, clause: FunnelClause, part: list[Row], instances: Instances, width: int
) -> Progress:
    ordered = sorted(part, key=lambda event: event.key)
    items = _items(query, ordered, instances)
    excluded = [
        [row for symbol in excluded_symbols(query, clause, step) for row in instances(symbol)]
        for step in range(len(clause.steps))
    ]
    attempts = _Attempts(clause, excluded, width)
    if clause.reads_in_turn:
        items = _read_in_turn(clause, items, attempts)
    else:
        items = [item for item in items if item.step != NO_STEP]
    begins = [item.moment for item in items if item.step == 0]
    first = tuple(i.event for i in items if i.step == 0 and i.moment == min(begins))
    return Progress(tuple(attempts.gaps(items)), first, ordered[-1].key[0])


def _items(query: Query, ordered: list[Row], instances: Instances) -> list[Item]:
    """The items of a partition: moment by moment, those of no step first, then step by step."""
    steps = [{id(row) for row in instances(symbol)} for symbol in step_symbols(query)]
    found = []
    for event in ordered:
        own = [step for step, rows in enumerate(steps) if id(event) in rows]
        found += [Item(event, step) for step in own or [NO_STEP]]
    return sorted(found, key=lambda item: (item.moment, item.step))


def _read_in_turn(clause: FunnelClause, items: list[Item], attempts: _Attempts) -> list[Item]:
    """The items up to the first that is out of turn."""
    read: list[Item] = []
    for item in items:
        level = len(list(attempts.gaps(read)))
        if item.step == NO_STEP:
            if "order" in clause.strict and level:
                break
            continue
        if item.step and "deduplication" in clause.strict and level > item.step:
            break
        if "order" in clause.strict and level and level < item.step:
            break
        read.append(item)
    return read


class _Attempts:
    def __init__(self, clause: FunnelClause, excluded: list[list[Row]], width: int) -> None:
        self._clause, self._excluded, self._width = clause, excluded, width

    def gaps(self, items: list[Item]) -> Iterator[int]:
        """For each step that is reached, the time from the step before: in the attempt that reaches
        it first, and of these in the one that comes to the step before last.

        What can follow an attempt depends on its first and its last event alone.
        """
        attempts = {(item, item) for item in items if item.step == 0}
        if attempts:
            yield 0
        for step in range(1, len(self._clause.steps)):
            found = [
                (first, last, item)
                for first, last in attempts
                for item in items
                if item.step == step and self._follows(first, last, item)
            ]
            if not found:
                return
            soonest = min(item.moment for _, _, item in found)
            yield min(
                item.event.key[0] - before.event.key[0]
                for _, before, item in found
                if item.moment == soonest
            )
            attempts = {(first, item) for first, _, item in found}

    def _follows(self, first: Item, before: Item, item: Item) -> bool:
        if item.moment < before.moment:
            return False
        if "increase" in self._clause.strict and item.moment == before.moment:
            return False
        if item.event.key[0] - first.event.key[0] >= self._width:
            return False
        excluded = self._excluded[before.step]
        return not any(before.moment < row.key < item.moment for row in excluded)


# --- totals ---------------------------------------------------------------------------------------


def _groups(
    clause: FunnelClause, found: list[Progress]
) -> Iterator[tuple[dict[str, Any] | None, list[Progress]]]:
    if not clause.by:
        if found:
            yield None, found
        return
    groups: dict[tuple[Any, ...], list[Progress]] = {}
    for progress in found:
        if progress.level:
            values = [tuple(row.values[name] for name in clause.by) for row in progress.first]
            groups.setdefault(min(values, key=_nulls_last), []).append(progress)
    for values_, members in groups.items():
        yield dict(zip(clause.by, values_, strict=True)), members


def _nulls_last(values: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is None, 0 if value is None else value) for value in values]


def _step_rows(clause: FunnelClause, members: list[Progress]) -> Iterator[dict[str, Any]]:
    time = max(member.last for member in members)
    counts = [sum(m.level > step for m in members) for step in range(len(clause.steps))]
    for step, count in enumerate(counts):
        name, *others = clause.aggregates(step)
        yield _row(time, name, float(count), count)
        if others:
            gaps = sorted(member.gaps[step] for member in members if member.level > step)
            values = (
                _ratio(count, counts[0]),
                _ratio(count, counts[step - 1]),
                _quantile(gaps, Fraction(1, 2)),
                _quantile(gaps, Fraction(9, 10)),
            )
            for text, value in zip(others, values, strict=True):
                yield _row(time, text, value, None)


def _ratio(count: int, of: int) -> float | None:
    return count / of if of else None


def _quantile(ordered: list[int], share: Fraction) -> float | None:
    """The value at a share of the way from the least to the greatest, between two if need be."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def _row(time: int, aggregate: str, value: float | None, count: int | None) -> dict[str, Any]:
    return {
        "time": time,
        "seq": None,
        "aggregate": aggregate,
        "value": value,
        "count": count,
        "exact": True,
    }
