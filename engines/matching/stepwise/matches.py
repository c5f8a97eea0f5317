"""Queries that return matches: their times, their keys, and the events of the match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engines.account import Account
from engines.columns.groups import EventGroups
from engines.columns.layout import Rows
from engines.matching.stepwise.bind import distinct
from engines.matching.stepwise.plan import Mode, plan_choice
from engines.matching.stepwise.steps import Frame, QueryScan, Slot, StepPlan, run_steps, value
from engines.results.chunks import NEVER, MatchChunk
from engines.results.json_text import BoundAliases, KeyTexts
from optimizer.ir.pattern import Pattern, alternatives, bound_names, waits
from optimizer.ir.query import Query


class StepMatches(MatchChunk):
    """Matches of one OR-free reading of a query's pattern, as a frame."""

    def __init__(
        self, of: Query, reading: StepReading, frame: Frame, account: Account, operator: str
    ) -> None:
        super().__init__(of, reading.scan.columns, account, operator)
        self._reading, self._scan, self._frame = reading, reading.scan, frame
        self._first, self._last = reading.plan.extent.of(frame)

    def __len__(self) -> int:
        return self._frame.size

    def take(self, rows: Rows) -> StepMatches:
        frame = self._frame.take(rows)
        return StepMatches(self.of, self._reading, frame, self._account, self._operator)

    def matched(self) -> BoundAliases:
        return _bound(self._reading, self._frame)

    def last_rows(self) -> Rows:
        rows: Rows = self._scan.layout.order[self._last]
        return rows

    def partitions(self) -> tuple[Rows, int] | None:
        layout = self._scan.layout
        return (layout.partition[self._first], len(layout.starts) - 1) if self.of.key else None

    def key_texts(self, partitions: Rows) -> pa.Array:
        return self._reading.keys.of(partitions)

    def times(self) -> tuple[Rows, Rows, Rows]:
        scan, layout = self._scan, self._scan.layout
        start, end = layout.ticks[self._first], layout.ticks[self._last]
        if not waits(self._reading.pattern):
            return start, end, end
        if self._reading.closes is not None:
            return start, end, self._reading.closes[layout.partition[self._first]]
        if not self.of.window.is_count:
            return start, end, start + scan.width
        # The event whose rank closes the window, or else the partition's last one.
        last = layout.starts[layout.partition[self._first] + 1] - 1
        return start, end, layout.ticks[np.minimum(scan.reach_high[self._first], last)]

    def decided(self) -> Rows:
        decided = super().decided()
        if not (self.of.window.is_count and waits(self._reading.pattern)):
            return decided
        layout, closing = self._scan.layout, self._scan.reach_high[self._first]
        is_closed = closing < layout.starts[layout.partition[self._first] + 1]
        return np.where(is_closed, decided, NEVER)

    def bound(self) -> tuple[int, Sequence[EventGroups]]:
        kept, frame = self._reading.plan.kept, self._frame
        groups = [frame.group(alias) for alias in kept if frame.is_group(alias)]
        return len(kept) - len(groups), groups


class StepReading(NamedTuple):
    """What the rows of matches of one OR-free reading of a pattern are made with.

    `closes` is when the windows of each partition close, where each has but one.
    """

    pattern: Pattern
    plan: StepPlan
    scan: QueryScan
    keys: KeyTexts
    closes: Rows | None = None


# Which matches of a reading are wanted, by the table's row of their last event.
Wanted = Callable[[Pattern, Rows], npt.NDArray[np.bool_]]


def match_chunks(
    query: Query,
    scan: QueryScan,
    keys: KeyTexts,
    account: Account,
    operator: str,
    wanted: Wanted | None = None,
    closes: Rows | None = None,
) -> Iterator[MatchChunk]:
    """The matches of a query that returns them; making their texts is charged to an operator."""
    for pattern in alternatives(query.pattern):
        whole = query.pattern if query.strategy == "next" else None
        plan = plan_choice(pattern, query.conditions, Mode.MATCH, next_of=whole)
        seed = Frame(1, {Slot.LOW: np.array([0]), Slot.HIGH: np.array([len(scan.layout)])})
        frames: Iterable[Frame] = run_steps(plan.steps, scan, seed)
        if plan.unkept:
            frames = distinct(frames, plan.kept, (), scan)
        reading = StepReading(pattern, plan, scan, keys, closes)
        for frame in frames:
            found = StepMatches(query, reading, frame, account, operator)
            if wanted is not None:
                keep = wanted(pattern, found.last_rows())
                found = found if keep.all() else found.take(np.flatnonzero(keep))
            if len(found):
                yield found


def _bound(reading: StepReading, frame: Frame) -> BoundAliases:
    scan = reading.scan
    order = scan.layout.order
    columns: dict[str, Rows | EventGroups] = {}
    for alias in reading.plan.kept:
        if frame.is_group(alias):
            group = frame.group(alias)
            columns[alias] = EventGroups(group.offsets, order[group.rows])
        else:
            columns[alias] = order[frame.column(alias)]
    names = bound_names(reading.pattern)
    return BoundAliases(frame.size, columns, lambda e: value(e, scan, frame), names)
